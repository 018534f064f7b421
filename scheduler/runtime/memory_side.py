"""The owner's dealings with memory: devices that are watched, measurements that are late."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.core.events import AllocationReported, DevicesRead
from scheduler.core.instances import Instance
from scheduler.core.sizes import DeviceId, DeviceReading, Need
from scheduler.core.states import SETTLED
from scheduler.core.values import PresetName

from .declared import grown, most_of, seen
from .devices.device import Device
from .devices.family import with_descendants
from .devices.limits import Limits
from .devices.readings import within
from .devices.watch import DeviceWatch
from .figures import is_declared
from .measures import Measures
from .memory import corrected, differ, readings
from .record import Allocated, Record

if TYPE_CHECKING:
    from .instance_run import InstanceRun
    from .owner import Owner


class Memory:
    """`devices` are as they were last read; `watch` is who reads them, if anybody does."""

    def __init__(self, owner: Owner, measures: Measures | None, record: Record) -> None:
        self.devices: tuple[Device, ...] = ()
        self.watch: DeviceWatch | None = None
        self._owner = owner
        self._measures = measures
        self._record = record
        self._told: tuple[DeviceReading, ...] = ()
        self._hurried: set[tuple[PresetName, bool]] = set()

    def seen(self, devices: tuple[Device, ...]) -> None:
        """By whoever watches them, about once a second."""

        def take() -> None:
            owner, seen = self._owner, readings(devices)
            self.devices = devices
            if self._returning or differ(self._told, seen):
                self._told = seen
                owner.handle(DevicesRead(seen))
            self._correct(devices)

        self._owner.post(take)

    def limit(self, limits: Limits) -> None:
        """From now on, by what was last read: the next reading may be a second away. What has
        started or ended since is not in it, so nothing else is concluded from it again."""

        def take() -> None:
            self.devices = tuple(within(device, limits) for device in self.devices)
            self._told = tuple(replace(each, stale=True) for each in readings(self.devices))
            self._owner.handle(DevicesRead(self._told))

        self._owner.post(take)

    def something_exited(self) -> None:
        """What it held is free when a reading shows it."""
        if self.watch is not None:
            self.watch.look_soon()

    def after_step(self, now: float) -> None:
        if self.watch is not None:
            self.watch.hurry = self._returning
        if self._measures is not None:
            self._hurry(self._measures, now)

    @property
    def totals(self) -> dict[DeviceId, int]:
        """Bytes of each device, as far as they are known."""
        return {device.reading.device: device.reading.total for device in self.devices}

    def offer_changed(self) -> None:
        self._hurried.clear()

    @property
    def _returning(self) -> bool:
        return self._owner.planner.ledger.next_return is not None

    def _correct(self, devices: tuple[Device, ...]) -> None:
        owner = self._owner
        for number, instance in list(owner.planner.instances.items()):
            if is_declared(owner.runs[number].spec):
                self._learn(instance, owner.runs[number], devices)
                continue
            pid, held = owner.runs[number].pid, owner.planner.ledger.held[number]
            need = None if pid is None else corrected(instance, held, pid, devices)
            if need is not None:
                owner.handle(AllocationReported(number, need))

    def _learn(self, instance: Instance, run: InstanceRun, devices: tuple[Device, ...]) -> None:
        if instance.child not in SETTLED or run.pid is None:
            return
        most = most_of(run.most_seen, seen(devices, with_descendants({run.pid})))
        if not grown(run.most_seen, most):
            return
        run.most_seen = most
        self._record(Allocated(run.instance, Need(tuple(most.items()))))
        held = most_of(dict(instance.grant.need.own), most)
        need = Need(tuple(held.items()), instance.grant.need.mapped)
        self._owner.handle(AllocationReported(run.instance, need))

    def _hurry(self, measures: Measures, now: float) -> None:
        """L5: what is waited for is measured first; after half of the wait a guess is asked for."""
        for preset, late in self._owner.planner.unmeasured(now):
            if (preset, late) in self._hurried:
                continue
            self._hurried.add((preset, late))
            if late:
                measures.estimate_soon(preset)
            else:
                measures.hurry(preset)
