"""A stand-in for NVIDIA's driver library, so that the real pynvml is used where there is no GPU.

stub = NvmlStub(folder)
stub.show(StubGpu(...), StubGpu(...))        # whenever it changes
gateway(..., env=stub.environment)           # any process that is to see these GPUs
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_stub.c")
GIB = 1 << 30
NOT_AVAILABLE = (1 << 64) - 1
"""What NVML says where it does not know a process's bytes."""
DRIVER_NOT_LOADED = 9
GPU_IS_LOST = 15
UNKNOWN = 999


@dataclass(frozen=True)
class StubGpu:
    """`compute` and `graphics`: bytes by pid. `used` is what is in use beside `reserved`; unless it
    is given, it is what the processes use. `free` says something else than what would be true."""

    uuid: str
    total: int = 24 * GIB
    reserved: int = 0
    compute: tuple[tuple[int, int], ...] = ()
    graphics: tuple[tuple[int, int], ...] = ()
    used: int | None = None
    free: int | None = None
    error: int = 0
    bus: int = 1
    percent: int = 0
    celsius: int = 40
    milliwatts: int = 60_000
    partitioned: bool = False
    v2: bool = True
    lists: bool = True
    name: str = "NVIDIA Stub"

    def says(self) -> str:
        used = self.used
        if used is None:
            used = sum(dict([*self.graphics, *self.compute]).values())
        free = self.total - self.reserved - used if self.free is None else self.free
        figures = (self.total, free, self.reserved, self.percent, self.celsius, self.milliwatts)
        flags = (int(self.partitioned), int(self.v2), int(self.lists))
        words = ("gpu", self.error, self.uuid, self.bus, *figures, *flags, self.name)
        return " ".join(map(str, words))


class NvmlStub:
    """Compiled into `folder`, which must exist."""

    def __init__(self, folder: Path) -> None:
        self._state = folder / "gpus"
        library = folder / "libnvidia-ml.so.1"
        command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
        subprocess.run([*command, "-o", library, SOURCE], check=True, timeout=60)
        self.environment = {"LD_LIBRARY_PATH": str(folder), "NVML_STUB_STATE": str(self._state)}
        self.show()

    def show(self, *gpus: StubGpu, init: int = 0) -> None:
        """What the library says from now on, in every process that has loaded it."""
        lines = [f"init {init}"]
        for number, gpu in enumerate(gpus):
            lines.append(gpu.says())
            for kind, processes in (("compute", gpu.compute), ("graphics", gpu.graphics)):
                lines += [f"process {number} {kind} {pid} {used}" for pid, used in processes]
        new = self._state.with_suffix(".new")
        new.write_text("\n".join(lines) + "\n")
        new.replace(self._state)
