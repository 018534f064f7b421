"""What a child says that it has allocated, out of its log, line by line. Pure.

    load_tensors:   CPU_Mapped model buffer size =    28.69 MiB
    llama_kv_cache: RPC0[127.0.0.1:50161] KV buffer size =    30.00 MiB
    sched_reserve: RPC0[127.0.0.1:50161] compute buffer size =    24.91 MiB

Buffers of one kind on one device are added up: a model with windows has two caches, a model in
several files several mappings. Compute buffers are reserved more than once for a context, and the
last of them is the one that is kept.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.core.sizes import HOST, DeviceId, FileId, Need, on_each

MIB = 1 << 20
MOST_BYTES = 1 << 50
MARK = " MiB"
"""No line without it is of use here."""
LONGEST_LINE = 400
"""Characters. A longer line is none of these, and is not looked at."""
MOST_NAMES = 64

# Matched in the event loop, against what a model's file or a client may have written: each takes
# time in proportion to the line for each place where it may begin.
_USED = re.compile(r"\busing device (\w+) \(([^()]*)\)", re.ASCII)
BUFFER = re.compile(
    r": +([\w.-]+)(?:\[([^][]*)\])? +(\w+(?: \w+)*) +buffer size = +(\d{1,12}\.\d{1,9}) MiB",
    re.ASCII,
)
_PROJECTOR_ON = re.compile(r"\bclip_ctx: CLIP using ([\w.-]+)(?:\[([^][]*)\])? backend", re.ASCII)
_PROJECTOR = re.compile(r"\bload_hparams: model size: +(\d{1,12}\.\d{1,9}) MiB", re.ASCII)
_NUMBERED = re.compile(r"[A-Za-z_]+([0-9]{0,4})", re.ASCII)
_MAPPED = "CPU_Mapped"
_OF_THE_HOST = ("CPU", "AMX")


def mib(text: str) -> int:
    """Bytes. No more than any device has: a line may say anything."""
    return min(round(float(text) * MIB), MOST_BYTES)


@dataclass
class DeviceNames:
    """Buffers on RPC servers are called by their endpoint and by their number there; in the ledger
    they have the names that the engine lists them under."""

    _on_endpoint: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def hear(self, line: str) -> None:
        found = _USED.search(line)
        if found is not None:
            self.add(found[1], found[2])

    def add(self, name: str, description: str) -> None:
        names = self._on_endpoint[description]
        if len(names) < MOST_NAMES and name not in names:
            names.append(name)

    def of(self, buffer: str, endpoint: str | None) -> DeviceId:
        if buffer.startswith(_OF_THE_HOST) or buffer.endswith("_Host"):
            return HOST  # mapped, repacked, pinned for a device
        if endpoint is None:
            return DeviceId(buffer.removesuffix("_Mapped").removesuffix("_Private"))
        found = _NUMBERED.fullmatch(buffer)
        if found is None:
            return DeviceId(buffer)
        number, names = int(found[1] or 0), self._on_endpoint.get(endpoint, [])
        return DeviceId(names[number] if number < len(names) else buffer)


class Allocated:
    """One child's buffers, from the begin of its load to its first `ready`."""

    def __init__(self) -> None:
        self.names = DeviceNames()
        self._models = 0
        self._contexts = 0
        self._kept: dict[DeviceId, int] = defaultdict(int)
        self._compute: dict[tuple[int, DeviceId], int] = {}
        self._mapped = 0
        self._projector_on = HOST
        self._not_computed: set[int] = set()  # contexts that have not said their compute buffers

    @property
    def is_begun(self) -> bool:
        return self._models > 0

    @property
    def is_whole(self) -> bool:
        """Whether every context that it began has said all of its buffers: the last of them are
        those it computes in."""
        return self.is_begun and self._contexts > 0 and not self._not_computed

    def take(self, line: str) -> None:
        """Never raises, whatever the line is."""
        if len(line) > LONGEST_LINE:
            return
        if MARK not in line:
            self._begin(line)
            return
        self.names.hear(line)
        if (found := BUFFER.search(line)) is not None:
            self._add(found[1], found[2], found[3], mib(found[4]))
        elif (found := _PROJECTOR.search(line)) is not None:
            self._kept[self._projector_on] += mib(found[1])

    def need(self, file: FileId) -> Need | None:
        """`file` is the model's. None when it has said nothing of its weights: it may be told to
        be silent."""
        if not self._models or not (self._kept or self._mapped):
            return None
        own = dict(self._kept)
        for (_, device), size in self._compute.items():
            own[device] = own.get(device, 0) + size
        return Need(
            tuple(sorted((device, size) for device, size in own.items() if size)),
            ((file, self._mapped),) if self._mapped else (),
        )

    def _begin(self, line: str) -> None:
        """Another model, another context of one, or a projector."""
        if "load_tensors: loading model tensors" in line:
            self._models += 1
        elif "llama_context: constructing llama_context" in line:
            self._contexts += 1
            self._not_computed.add(self._contexts)
        elif (found := _PROJECTOR_ON.search(line)) is not None:
            self._contexts += 1
            self._projector_on = self.names.of(found[1], found[2])

    def _add(self, buffer: str, endpoint: str | None, kind: str, size: int) -> None:
        device = self.names.of(buffer, endpoint)
        if kind == "compute":
            self._compute[self._contexts, device] = size
            self._not_computed.discard(self._contexts)
        elif kind == "model" and buffer == _MAPPED and self._models == 1:
            self._mapped += size
        else:
            self._kept[device] += size


def is_plausible(need: Need, totals: Mapping[DeviceId, int]) -> bool:
    """Whether every device is one of `totals` and has so much. With no device known: whether any
    could have it."""
    sizes = on_each(need).items()
    if any(size >= MOST_BYTES for _, size in sizes):
        return False
    return not totals or all(size <= totals.get(device, 0) for device, size in sizes)
