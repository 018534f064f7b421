"""Memory as an onlooker counts it: a bound for each start, each wake, each victim and each refusal.

It believes the last reading and what children say, and knows no more than that: what others use is
at least so much, and what is held at least that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from scheduler.core.decisions import AskExit, Kill, Reason, Start
from scheduler.core.events import (
    AllocationReported,
    DevicesRead,
    Event,
    Exited,
    LoadingReported,
    PresetsChanged,
    ReadyReported,
    Requested,
    SleepingReported,
)
from scheduler.core.placing import fits, need_of, steps
from scheduler.core.planner import Planner
from scheduler.core.sizes import (
    FIXED,
    HOST,
    NO_NEED,
    DeviceReading,
    FixedShape,
    Grant,
    Need,
    Shape,
    loaded,
    loading,
)
from scheduler.core.values import Code, Kind, PresetName, PresetSpec

from .shapes import all_placements


class Accounts:
    def __init__(self, planner: Planner, leases: Callable[[int], Collection[int]]) -> None:
        self.planner = planner
        self.leases = leases
        self.now = float("-inf")
        self.readings: dict[str, DeviceReading] = {}
        self.external: dict[str, int] = {}  # at least so much is not ours
        self.held: dict[int, Need] = {}
        self.awake: dict[int, Need] = {}  # what each takes when it does not sleep
        self.moods: dict[int, str] = {}
        self.grants: dict[int, Grant] = {}
        self.figures: dict[int, Need] = {}  # what its preset's figures say of such a grant
        self.presets: dict[int, PresetSpec] = {}
        self.going: set[int] = set()
        self.has_loaded: set[int] = set()  # so that what it reads next is a wake
        self.fell_asleep: set[int] = set()  # and hold what they held, as long as somebody reads
        self.exits: list[tuple[float, Need, bool]] = []  # whether a reading has come since
        self.surplus: dict[PresetName, Counter[str]] = {}
        self.ran_out: set[PresetName] = set()
        self.current: dict[PresetName, PresetSpec] = {}
        self.lowered: set[str] = set()  # devices of which somebody has allowed less since

    # What is told -----------------------------------------------------------------------

    def hear(self, event: Event, now: float) -> None:
        now = self.now = max(now, self.now)  # a clock that goes back stands still
        self._free_the_sleepers()
        match event:
            case DevicesRead(devices):
                self._read(devices, now)
            case Requested(preset=preset, kind=Kind.LOAD):
                self.surplus.pop(preset, None)  # a person wants it tried anew
            case PresetsChanged(presets):
                self._edit({spec.name: spec for spec in presets})
            case AllocationReported(instance, need) if instance in self.held:
                self._note_allocation(instance, need)
            case SleepingReported(instance) if instance in self.held:
                self.has_loaded.add(instance)
                self.moods[instance] = "sleeping"
                self.fell_asleep.add(instance)
                self._free_the_sleepers()
            case LoadingReported(instance) if instance in self.held:
                self._wakes(instance, "loading")
            case ReadyReported(instance) if instance in self.held:
                self._note_ready(instance)
            case Exited(instance, exit) if instance in self.held:
                if exit.out_of_memory:
                    self.ran_out.add(self.presets[instance].name)
                self.exits.append((now, self.held.pop(instance), False))
                self.fell_asleep.discard(instance)
                self.going.discard(instance)

    def _free_the_sleepers(self) -> None:
        """L8: under a lease a sleeper gives nothing back."""
        for instance in [i for i in self.fell_asleep if not self.leases(i)]:
            self.fell_asleep.discard(instance)
            self.held[instance] = NO_NEED

    def _note_ready(self, instance: int) -> None:
        self._wakes(instance, "loaded")
        self.moods[instance] = "loaded"
        if instance in self.has_loaded:
            self.held[instance] = loaded(self.awake[instance])
        self.has_loaded.add(instance)

    def _wakes(self, instance: int, mood: str) -> None:
        self.fell_asleep.discard(instance)
        if self.moods[instance] == "sleeping":
            self.held[instance], self.moods[instance] = self.awake[instance], mood

    def _note_allocation(self, instance: int, need: Need) -> None:
        self.held[instance] = need
        if self.moods[instance] == "sleeping":
            return
        ran, grant, raw = self.presets[instance], self.grants[instance], self.figures[instance]
        self.awake[instance] = loading(need, grant.need.passing)
        raw = loaded(raw)
        spec = self.current.get(ran.name)
        known = (ran.fingerprint, ran.shape)
        if grant.need and spec is not None and (spec.fingerprint, spec.shape) == known:
            if any(
                on_each(loaded(grant.need), {}).get(d, 0) < size
                for d, size in on_each(raw, {}).items()
            ):
                return  # L6: it was granted all there is
            over = Counter(on_each(need, {}))
            over.subtract(on_each(raw, {}))
            self.surplus[ran.name] = self.surplus.get(ran.name, Counter()) | over

    def _edit(self, presets: dict[PresetName, PresetSpec]) -> None:
        for name, old in self.current.items():
            new = presets.get(name)
            if new is None or (new.fingerprint, new.shape) != (old.fingerprint, old.shape):
                self.surplus.pop(name, None)
        self.current = presets

    def _read(self, devices: Iterable[DeviceReading], now: float) -> None:
        before, self.readings = self.readings, {}
        for reading in devices:
            name = reading.device
            self.readings[name] = reading
            if name in before and _allows_less(reading, before[name]):
                self.lowered.add(name)
            if name not in before:
                self.external[name] = 0
            elif reading.stale:
                continue
            self.external[name] = self._least_external(reading, now)
        if any(not reading.stale for reading in self.readings.values()):
            self.exits = [(at, need, True) for at, need, _ in self.exits]

    def _least_external(self, reading: DeviceReading, now: float) -> int:
        name = reading.device
        if reading.foreign is not None:
            return max(0, reading.foreign)
        returning = self._returning(name, now, seen=True)
        beyond = reading.total - reading.free - self._held_on(name) - returning
        moving = [i for i in self.held if self.moods[i] == "loading" or i in self.going]
        quiet = not returning and not any(name in on_each(self.held[i], {}) for i in moving)
        return max(0, beyond) if quiet else min(self.external[name], max(0, beyond))

    def _returning(self, device: str, now: float, *, seen: bool = False) -> int:
        """Of those that exited a moment ago; with `seen`, though a reading has come since."""
        lasts = self.planner.config.returning_seconds
        return sum(
            dict(need.own).get(device, 0)
            for at, need, was_read in self.exits
            if device != HOST and at + lasts > now and (seen or not was_read)
        )

    def mapped(self, without: int | None = None) -> dict[str, int]:
        files: dict[str, int] = {}
        for instance, need in self.held.items():
            for file, size in need.mapped if instance != without else ():
                files[file] = max(size, files.get(file, 0))
        return files

    def _held_on(self, device: str, without: int | None = None) -> int:
        own = sum(dict(need.own).get(device, 0) for i, need in self.held.items() if i != without)
        return own + (sum(self.mapped(without).values()) if device == HOST else 0)

    def limit(self, device: str) -> int:
        reading = self.readings[device]
        left = reading.total - reading.margin - self.external[device]
        return left if reading.budget is None else min(left, reading.budget)

    # What is decided --------------------------------------------------------------------

    def start(self, decision: Start, *, waits_alone: bool) -> None:
        spec, grant = decision.preset, decision.grant
        if spec.shape is None or not self.readings:
            assert grant == Grant(), "granted what nobody counts"
        else:
            self._fits(grant.need, None)
            self._is_of_its_shape(spec, spec.shape, grant)
            if waits_alone:
                self._is_the_largest(decision)
        instance = decision.instance
        self.held[instance] = self.awake[instance] = grant.need
        self.grants[instance], self.presets[instance] = grant, spec
        self.figures[instance] = self._figures(spec, grant)
        self.moods[instance] = "loading"

    def wake(self, instance: int) -> None:
        self._fits(self.awake[instance], instance)
        self.held[instance], self.moods[instance] = self.awake[instance], "loading"
        self.fell_asleep.discard(instance)

    def could_start(self, spec: PresetSpec) -> bool:
        """Surely: there is nothing to choose, nothing to find out, and room."""
        shape = spec.shape
        if spec.measuring and self.readings:
            return False
        if shape is None or not self.readings:
            return True
        if not isinstance(shape, FixedShape) or spec.estimated:
            return False
        return fits(self._need(spec, shape, FIXED, 0), *self.planner.ledger.free())

    def _fits(self, need: Need, sleeper: int | None) -> None:
        self._free_the_sleepers()
        for device, size in on_each(need, self.mapped(sleeper)).items():
            if device in self.readings and size:
                held = self._held_on(device, sleeper)
                returning = self._returning(device, self.now)
                assert held + returning + size <= self.limit(device), "L1, L4: no memory"
                if self.readings[device].exclusive:
                    assert not held, "two at once on a device that serves one"

    def _figures(self, spec: PresetSpec, grant: Grant) -> Need:
        if spec.shape is None or not grant.need:
            return NO_NEED
        made = [at for at, tokens in enumerate(contexts(spec.shape)) if tokens == grant.context]
        assert made, "L2: a context that its preset does not have"
        return need_of(spec.shape, grant.placement, made[0])

    def _is_of_its_shape(self, spec: PresetSpec, shape: Shape, grant: Grant) -> None:
        if spec.estimated and isinstance(shape, FixedShape):
            return  # L6: all that there is, where a guess is more than that
        own = dict(grant.need.own)
        for device, size in self._figures(spec, grant).own:
            assert own[device] >= size, "L2: granted less than it takes"

    def _is_the_largest(self, decision: Start) -> None:
        spec, grant = decision.preset, decision.grant
        shape = spec.shape
        assert shape is not None
        if spec.name in self.ran_out or (spec.estimated and isinstance(shape, FixedShape)):
            return
        room = self.planner.ledger.free({decision.instance})
        fitting = [
            step
            for step in range(steps(shape))
            if fits(self._need(spec, shape, grant.placement, step), *room)
        ]
        assert grant.context == contexts(shape)[max(fitting, default=0)], "L2"

    def _need(self, spec: PresetSpec, shape: Shape, placement, step: int) -> Need:
        need = need_of(shape, placement, step)
        own = Counter(dict(need.own))
        for device, size in self.surplus.get(spec.name, Counter()).items():
            if device in own or device == HOST:
                own[device] += size
        return Need(tuple(own.items()), need.mapped)

    def end(
        self, decision: AskExit | Kill, *, is_chosen_now: bool, goes_for_its_group: bool = False
    ) -> None:
        """V3: without a limit by count, who goes holds something where devices have limits; and the
        others that go would not have sufficed. Where that is `is_chosen_now`: in this step, for one
        for which alone room is made; and not for who has to go whatever it holds."""
        victim, preset = decision.instance, decision.for_preset
        self.going.add(victim)
        if decision.reason is not Reason.EVICTED or self.planner.config.models_max:
            return
        if preset is None or preset in self.ran_out or goes_for_its_group:
            return  # A4: one goes for good measure
        holds = on_each(self.held[victim], {})
        assert any(holds.get(device) for device in self.readings), "V3: went for nothing"
        spec = self.current.get(preset)
        if is_chosen_now and spec is not None and spec.fixed is not None and not spec.estimated:
            others = {
                instance.id
                for instance in self.planner.instances.values()
                if instance.id != victim and (instance.id in self.going or instance.leaving)
            }
            need = self._need(spec, spec.fixed, FIXED, 0)
            short = self.planner.ledger.deficit(need, others, returned=True)
            assert short, "V3: went though the others suffice"

    def over_limit(self, instance: int) -> bool:
        """L1: it has something of a device of which more is held than somebody allows now."""
        holds = on_each(self.held[instance], {})
        devices = self.planner.ledger.devices
        return any(
            holds.get(name) and name in devices and self._held_on(name) > devices[name].limit
            for name in self.lowered
        )

    # Who is refused -----------------------------------------------------------------------

    def refuse(self, spec: PresetSpec, code: Code, pinned: Iterable[int]) -> None:
        """A6, L6: nobody whom the machine could take, with all that may go gone."""
        shape = spec.shape
        assert shape is not None
        if code is Code.MODEL_TOO_LARGE:
            if spec.name in self.ran_out and spec.estimated:
                return
            assert not (spec.estimated and isinstance(shape, FixedShape)), "L6: not tried"
            rooms = {
                name: min(r.total - r.margin, r.total if r.budget is None else r.budget)
                for name, r in self.readings.items()
            }
            assert not self._has_a_place(spec, shape, (rooms, {})), "L6: it would fit"
        else:
            room = self.planner.ledger.roomy(list(pinned))
            assert not self._has_a_place(spec, shape, room), f"A6: {code}, and it would fit"

    def _has_a_place(self, spec: PresetSpec, shape: Shape, room: tuple) -> bool:
        places = [FIXED] if isinstance(shape, FixedShape) else list(all_placements(shape))
        # A device that is away is no place.
        places = [place for place in places if all(d in self.readings for d, _ in place.layers)]
        return any(fits(self._need(spec, shape, place, 0), *room) for place in places)


def _allows_less(after: DeviceReading, before: DeviceReading) -> bool:
    most = [float("inf") if each.budget is None else each.budget for each in (before, after)]
    return most[1] < most[0] or after.margin > before.margin


def contexts(shape: Shape) -> list[int]:
    if isinstance(shape, FixedShape):
        return [context for context, _ in shape.sizes]
    return list(shape.contexts)


def on_each(need: Need, mapped: Mapping[str, int]) -> dict[str, int]:
    """What it takes of each device; of a file only what is not mapped yet."""
    own = dict(need.own)
    more = sum(max(0, size - mapped.get(file, 0)) for file, size in need.mapped)
    if more:
        own[HOST] = own.get(HOST, 0) + more
    return own
