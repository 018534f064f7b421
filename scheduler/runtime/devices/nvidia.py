"""NVIDIA's GPUs, through NVML.

They are named as a child's engine names them: CUDA0, CUDA1 … by CUDA_VISIBLE_DEVICES out of the
order of their PCI addresses (children are started with CUDA_DEVICE_ORDER=PCI_BUS_ID; NVML promises
no order of its own). A GPU keeps its name while this process lives, whatever becomes of it.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from scheduler.core.sizes import DeviceId, DeviceReading

from .device import Clock, Device, Kept, as_last_seen
from .gpu import Nonsense, figures
from .visible import NotUnderstood, visible

logger = logging.getLogger(__name__)

RETRY_SECONDS = 10.0
"""While something is wrong NVML is opened anew so often: a lost GPU comes back in no other way."""


@dataclass(slots=True)
class _Gpu:
    """`handle` is None while NVML does not list it."""

    uuid: str
    name: str
    device: DeviceId
    kept: Kept[Device]
    handle: Any = None


@dataclass(frozen=True, slots=True)
class _Found:
    uuid: str
    address: tuple[int, int, int]
    name: str
    handle: Any
    partitioned: bool


class Nvidia:
    """Not safe for several threads at once. `visible_devices` is CUDA_VISIBLE_DEVICES as children
    get it; None: it is not set."""

    def __init__(
        self,
        visible_devices: str | None = None,
        clock: Clock = time.monotonic,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._visible = visible_devices
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._nvml: Any = None
        self._open = False
        self._retry_at = clock()
        self._library: Kept[bool] = Kept("NVML", clock)
        self._gpus: dict[str, _Gpu] = {}
        self._seen: dict[str, _Found] = {}
        self._lost = ""

    @property
    def knows_gpus(self) -> bool:
        """Else NVIDIA's GPUs, if there are any, have to be learned from the engine."""
        return bool(self._gpus)

    @property
    def uuids(self) -> tuple[str, ...]:
        """Of CUDA0, CUDA1 …, in this order."""
        return tuple(self._gpus)

    def read(self, ours: Collection[int]) -> tuple[Device, ...]:
        """`ours`: our children with their descendants. A GPU is left out until it was read once."""
        unwell = not self._open or bool(self._library.why)
        if (unwell or self._failing()) and self._clock() >= self._retry_at:
            self._retry_at = self._clock() + self._retry_seconds
            self._try_to_open()
        if self._open:
            for gpu in self._gpus.values():
                self._look(gpu, ours)
        devices = (as_last_seen(gpu.kept) for gpu in self._gpus.values())
        return tuple(device for device in devices if device is not None)

    def close(self) -> None:
        if self._open:
            self._open = False
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError as failure:
                logger.debug("NVML does not close: %s", failure)

    def _failing(self) -> bool:
        return any(gpu.kept.why for gpu in self._gpus.values())

    # Opening ---------------------------------------------------------------------------

    def _try_to_open(self) -> None:
        self.close()
        try:
            self._nvml = self._nvml or importlib.import_module("pynvml")
        except ImportError as failure:
            logger.debug("no NVIDIA devices are looked for: %s", failure)
            return
        try:
            self._nvml.nvmlInit()
            self._open = True
            found, lost = self._enumerated()
            self._take(found)
            self._lost = lost[0] if lost else ""
            if len(lost) > len(self._gpus.keys() - found.keys()):
                self._library.bad("a GPU does not answer and is left out", self._lost)
            else:
                self._library.good(True)
        except (self._nvml.NVMLError, UnicodeDecodeError) as failure:
            none_here = isinstance(
                failure,
                (self._nvml.NVMLError_LibraryNotFound, self._nvml.NVMLError_DriverNotLoaded),
            )
            self._without(str(failure), expected=none_here and not self._gpus)
        except NotUnderstood as refused:
            self._without(str(refused))

    def _without(self, why: str, *, expected: bool = False) -> None:
        self._library.bad(why, expected=expected)
        self.close()
        for gpu in self._gpus.values():
            gpu.kept.bad(why, expected=True)  # it has just been said for all

    def _enumerated(self) -> tuple[dict[str, _Found], list[str]]:
        """By UUID; and for each that does not answer, what is said of it."""
        found: dict[str, _Found] = {}
        lost = []
        for index in range(self._nvml.nvmlDeviceGetCount()):
            try:
                one = self._identified(index)
            except self._nvml.NVMLError_NoPermission:
                continue  # it is not ours to use: a container has only some
            except self._nvml.NVMLError as failure:
                lost.append(str(failure))
            else:
                found[one.uuid] = one
        return found, lost

    def _identified(self, index: int) -> _Found:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        pci = nvml.nvmlDeviceGetPciInfo(handle)
        try:
            partitioned = bool(nvml.nvmlDeviceGetMigMode(handle)[0])
        except nvml.NVMLError:
            partitioned = False  # most GPUs cannot be
        return _Found(
            nvml.nvmlDeviceGetUUID(handle),
            (pci.domain, pci.bus, pci.device),
            nvml.nvmlDeviceGetName(handle),
            handle,
            partitioned,
        )

    def _take(self, there: dict[str, _Found]) -> None:
        self._seen |= there
        ordered = sorted(self._seen.values(), key=lambda one: one.address)
        for uuid in visible(self._visible, [one.uuid for one in ordered]):
            if uuid not in self._gpus:
                self._gpus[uuid] = self._named(self._seen[uuid])
        for gpu in self._gpus.values():
            gpu.handle = there[gpu.uuid].handle if gpu.uuid in there else None

    def _named(self, found: _Found) -> _Gpu:
        if found.partitioned:
            raise NotUnderstood(
                f"{found.name} is divided into partitions (MIG), whose figures NVML does not give "
                "by itself: the engine is asked for its devices instead"
            )
        device = DeviceId(f"CUDA{len(self._gpus)}")
        return _Gpu(found.uuid, found.name, device, Kept(f"{device} ({found.name})", self._clock))

    # Reading -----------------------------------------------------------------------------

    def _look(self, gpu: _Gpu, ours: Collection[int]) -> None:
        try:
            if gpu.handle is None:
                gpu.kept.bad(_says(self._lost) if self._lost else "the driver lists it no more")
            else:
                gpu.kept.good(self._read(gpu, ours))
        except self._nvml.NVMLError as failure:
            gpu.kept.bad(_says(failure))
        except Nonsense as failure:
            gpu.kept.bad("the driver's figures cannot be true", str(failure))

    def _read(self, gpu: _Gpu, ours: Collection[int]) -> Device:
        seen = figures(self._nvml, gpu.handle)
        return Device(
            DeviceReading(gpu.device, seen.total, seen.free, foreign=seen.foreign(ours)),
            gpu.name,
            "CUDA",
            seen.utilisation,
            seen.temperature,
            seen.power,
            None if seen.processes is None else tuple(sorted(seen.processes.items())),
        )


def _says(failure: object) -> str:
    return f"the driver says: {failure}"
