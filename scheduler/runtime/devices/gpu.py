"""What NVML says of one GPU at this moment. Its errors are raised as they come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from .device import plausible

UNLISTED = 256 << 20
"""Bytes in use that no process is listed for, up to which the list counts as complete."""
UNLISTED_WITH_RESERVED = 1 << 30
"""The same where an old driver does not tell what it has reserved for itself."""
_KINDS = ("Compute", "Graphics")
_VERSIONS = ("_v3", "_v2")


class Nonsense(ValueError):
    """Figures that cannot be true."""


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """Bytes; `free` is without what the driver reserves (`reserved`, None: it does not say).
    `processes`: bytes by pid, None where the driver does not say them."""

    total: int
    free: int
    reserved: int | None = None
    processes: Mapping[int, int] | None = None
    utilisation: int | None = None
    temperature: int | None = None
    power: float | None = None

    def foreign(
        self, ours: Collection[int], exists: Callable[[int], bool] = psutil.pid_exists
    ) -> int | None:
        """All that is in use and not by our processes: so what the driver has reserved counts too.

        None where the list of processes cannot be trusted: a process without its bytes; a pid that
        is none here (a container is told the host's); clearly more in use than the list has (a
        container is told only some, MPS only its server). Our own could then not be told apart.
        """
        if self.processes is None or not all(map(exists, self.processes)):
            return None
        used = self.total - self.free
        unlisted = used - (self.reserved or 0) - sum(self.processes.values())
        if unlisted > (UNLISTED_WITH_RESERVED if self.reserved is None else UNLISTED):
            return None
        return max(0, used - sum(self.processes.get(pid, 0) for pid in ours))


def figures(nvml: Any, handle: Any) -> GpuFigures:
    """`nvml` is the module pynvml. Raises its NVMLError, or Nonsense."""
    total, free, reserved = _memory(nvml, handle)
    if not plausible(total, free) or not 0 <= (reserved or 0) <= total:
        raise Nonsense(f"{free} of {total} bytes free, {reserved} reserved")
    rates = _if_told(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    celsius = _if_told(
        nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
    )
    milliwatts = _if_told(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    return GpuFigures(
        total,
        free,
        reserved,
        _processes(nvml, handle, total),
        _within(rates, 100),
        _within(celsius, 200),
        None if _within(milliwatts, 10**7) is None else round(milliwatts / 1000, 1),
    )


def _memory(nvml: Any, handle: Any) -> tuple[int, int, int | None]:
    try:
        found = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        return found.total, found.free, found.reserved
    except (
        nvml.NVMLError_FunctionNotFound,
        nvml.NVMLError_NotSupported,
        nvml.NVMLError_ArgumentVersionMismatch,
    ):
        found = nvml.nvmlDeviceGetMemoryInfo(handle)  # before driver 510
        return found.total, found.free, None


def _processes(nvml: Any, handle: Any, total: int) -> Mapping[int, int] | None:
    """One that computes and draws is in both lists, with the same bytes."""
    found: dict[int, int] = {}
    for kind in _KINDS:
        listed = _listed(nvml, handle, kind)
        if listed is None:
            return None
        for process in listed:
            used = process.usedGpuMemory
            if used is None or not 0 <= used <= total:
                return None
            found[process.pid] = max(used, found.get(process.pid, 0))
    return found


def _listed(nvml: Any, handle: Any, kind: str) -> list[Any] | None:
    for version in _VERSIONS:
        ask = getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses{version}")
        try:
            return list(ask(handle))
        except nvml.NVMLError_FunctionNotFound:
            continue
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_NoPermission):
            return None
    return None


def _if_told(nvml: Any, ask: Callable[[], Any]) -> Any:
    """What a page would show beside the memory: not every GPU has it."""
    try:
        return ask()
    except nvml.NVMLError:
        return None


def _within(value: Any, most: int) -> Any:
    return value if value is not None and 0 <= value <= most else None
