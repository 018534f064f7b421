"""Devices of which the engine itself tells: ROCm, Vulkan, SYCL, Metal, RPC servers, and NVIDIA's
where NVML is missing. It tells their bytes in MiB and nothing of processes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from models_registry.errors import EngineMissing
from scheduler.core.sizes import DeviceId, DeviceReading

from .asking import Asking
from .device import Clock, Device, Kept, as_last_seen, kind_of, plausible
from .rpc_names import numbered

EVERY_SECONDS = 2.0
"""A question costs about 30 ms of a core, more where a GPU's driver is started for it."""
WITHOUT_DEVICES_SECONDS = 60.0
SHORTEST_SECONDS = 0.5
WAIT_SECONDS = 0.25
FIRST_WAIT_SECONDS = 2.0
HANGS_SECONDS = 30.0
MIB = 1 << 20

_LINE = re.compile(r"^ +(\w+): (.{1,200}) \((\d{1,9}) MiB, (\d{1,9}) MiB free\)$", re.MULTILINE)
_START = "Available devices:\n"
_ALWAYS = {"GGML_NO_BACKTRACE": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""An abort would run a debugger first. Children number NVIDIA's GPUs in this order too."""
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1", "GGML_VK_VISIBLE_DEVICES": ""}
"""For questions that are not about them, so that no driver is started and no GPU's memory taken."""


@dataclass(frozen=True, slots=True)
class ListedDevice:
    name: DeviceId
    description: str
    total: int
    free: int


def devices_in(text: str) -> tuple[ListedDevice, ...]:
    """Bytes. Those without memory of their own (a BLAS library) are left out. Raises ValueError."""
    _, start, listed = text.rpartition(_START)
    if not start:
        raise ValueError(f"the engine lists no devices: {_last_line(text)}")
    found = (
        ListedDevice(DeviceId(name), description, int(total) * MIB, int(free) * MIB)
        for name, description, total, free in _LINE.findall(listed)
    )
    return tuple(device for device in found if device.total)


@dataclass(slots=True)
class _Source:
    """What is asked about at once: this machine (`server` empty), or one RPC server. `devices` by
    the name that the engine gave them in its answer."""

    server: str
    kept: Kept[bool]
    next_at: float = float("-inf")
    asking: Asking | None = None
    devices: dict[DeviceId, Kept[Device]] = field(default_factory=dict)
    away: bool = False
    """Of an RPC server: nobody answers there, so that nothing new could be put on it."""


class Listed:
    """For one thread. `program` may raise EngineMissing; `environment` is what children get. `rpc`
    are the servers of all lists, in the ledger's order; it may be set anew at any time."""

    def __init__(
        self,
        program: Callable[[], Path],
        environment: Mapping[str, str],
        rpc: Sequence[str] = (),
        clock: Clock = time.monotonic,
    ) -> None:
        self.rpc = tuple(rpc)
        self._program = program
        kept = {
            name: value for name, value in environment.items() if not name.startswith("LLAMA_ARG_")
        }
        self._environment = {**kept, **_ALWAYS}
        self._clock = clock
        self._sources: dict[str, _Source] = {}

    @property
    def devices_each(self) -> Mapping[str, int]:
        """How many devices each RPC server has, as far as it has answered."""
        return {
            source.server: len(source.devices)
            for source in self._sources.values()
            if source.server and source.devices
        }

    def read(self, *, without_cuda: bool, fresh: bool = False) -> tuple[Device, ...]:
        """`without_cuda`: NVML tells of those. `fresh`: ask now of what there is, unless that was
        just asked. It waits a moment for an answer (the first time for two seconds); one that
        comes later is taken at a later look."""
        sources = [self._source(server) for server in ("", *self.rpc)]
        for source in sources:
            self._ask(source, without_cuda, fresh)
        for source in sources:
            self._take(source)
        names = numbered(self.rpc, self.devices_each)
        return tuple(device for source in sources for device in _named(source, names))

    def ask_again(self) -> None:
        """Ask everything at the next look, also where there was no device. From any thread."""
        for source in list(self._sources.values()):
            source.next_at = float("-inf")

    def close(self) -> None:
        """When the children have gone: an RPC server then answers at once what was asked of it."""
        for source in self._sources.values():
            if source.asking is not None:
                source.asking.close()
                source.asking = None

    def _source(self, server: str) -> _Source:
        if server not in self._sources:
            what = f"RPC server {server}" if server else "the engine's list of devices"
            self._sources[server] = _Source(server, Kept(what, self._clock))
        return self._sources[server]

    def _ask(self, source: _Source, without_cuda: bool, fresh: bool) -> None:
        now = self._clock()
        due = source.next_at
        if fresh and source.devices:
            due = min(due, source.next_at - EVERY_SECONDS + SHORTEST_SECONDS)
        if source.asking is not None or now < due:
            return
        source.next_at = now + EVERY_SECONDS
        environment = self._environment
        hidden = _NO_GPU if source.server else {"CUDA_VISIBLE_DEVICES": ""} if without_cuda else {}
        words = ["--rpc", source.server] if source.server else []
        try:
            argv = [str(self._program()), *words, "--list-devices"]
            source.asking = Asking(argv, {**environment, **hidden})
        except (EngineMissing, OSError) as failure:
            self._fail(source, f"the engine cannot be asked: {failure}")

    def _take(self, source: _Source) -> None:
        if source.asking is None:
            return
        age = time.monotonic() - source.asking.since
        first = not source.kept.value and not source.kept.why
        limit = FIRST_WAIT_SECONDS if first else WAIT_SECONDS
        answer = source.asking.answer(max(0.0, limit - age))
        if answer is not None:
            source.asking = None
            self._heard(source, *answer)
        elif source.server:
            self._fail(source, "it serves somebody, and one at a time", expected=True)
        elif age > HANGS_SECONDS:
            source.asking.close(0)
            source.asking = None
            self._fail(source, f"the engine does not answer within {HANGS_SECONDS:.0f} s")

    def _heard(self, source: _Source, status: int, said: str) -> None:
        try:
            if status:
                raise ValueError(_last_line(said) or f"the engine ended with {status}")
            listed = [one for one in devices_in(said) if _is_of(source, one)]
        except ValueError as failure:
            source.away = bool(source.server)
            self._fail(source, str(failure))
            return
        source.away = bool(source.server) and not listed
        source.kept.good(True)
        for name in source.devices.keys() - {one.name for one in listed}:
            source.devices[name].bad("the engine lists it no more")
        for one in listed:
            kept = source.devices.setdefault(one.name, Kept(_called(one), self._clock))
            if plausible(one.total, one.free):
                kept.good(_device(one))
            else:
                kept.bad("its figures cannot be true", f"{one.free} of {one.total} bytes free")
        if not source.devices:
            source.next_at = self._clock() + WITHOUT_DEVICES_SECONDS

    def _fail(self, source: _Source, why: str, *, expected: bool = False) -> None:
        source.kept.bad(why, expected=expected)
        if not source.devices and not source.server:
            source.next_at = self._clock() + WITHOUT_DEVICES_SECONDS
        for kept in source.devices.values():
            kept.bad(why, expected=True)  # it has just been said of the source


def _is_of(source: _Source, one: ListedDevice) -> bool:
    return (kind_of(one.name) == "RPC") == bool(source.server)


def _called(one: ListedDevice) -> str:
    return f"{one.name} ({one.description})"


def _device(one: ListedDevice) -> Device:
    reading = DeviceReading(one.name, one.total, one.free)
    return Device(reading, one.description, kind_of(one.name))


def _last_line(text: str) -> str:
    """What an abort says is on its last line; before it stands where in the source it was."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return re.sub(r"^\S+\.\w+:\d+: ", "", lines[-1])[:300] if lines else ""


def _named(source: _Source, names: Mapping[tuple[str, int], DeviceId]) -> Iterator[Device]:
    for number, kept in enumerate(source.devices.values()):
        device = as_last_seen(kept)
        if device is None:
            continue
        if source.server:
            name = names[source.server, number]
            device = replace(device, reading=replace(device.reading, device=name))
        yield _without_room(device) if source.away else device


def _without_room(device: Device) -> Device:
    """True of this moment: what others than it hold there is out of reach, too."""
    return replace(device, reading=replace(device.reading, free=0), stale=None)
