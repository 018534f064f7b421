"""All devices at one moment, with what may be used of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .device import Clock, Device
from .family import PROC, with_descendants
from .host import Host
from .limits import Limits
from .listed import Listed
from .nvidia import Nvidia

logger = logging.getLogger(__name__)

DEFAULT_LIMITS = Limits()


class Devices:
    """For one thread. `program` is the engine, `environment` what its children get, `rpc` all RPC
    servers in the ledger's order. `limits` and `rpc` may be set anew at any time."""

    def __init__(
        self,
        program: Callable[[], Path],
        environment: Mapping[str, str],
        *,
        limits: Limits = DEFAULT_LIMITS,
        rpc: Sequence[str] = (),
        proc: Path = PROC,
        clock: Clock = time.monotonic,
    ) -> None:
        self.limits = limits
        self.nvidia = Nvidia(environment.get("CUDA_VISIBLE_DEVICES"), clock)
        self.listed = Listed(program, environment, rpc, clock)
        self.warnings: tuple[str, ...] = ()
        self._host = Host(proc, clock)
        self._proc = proc

    @property
    def rpc(self) -> tuple[str, ...]:
        return self.listed.rpc

    @rpc.setter
    def rpc(self, servers: Sequence[str]) -> None:
        self.listed.rpc = tuple(servers)

    def read(self, ours: Collection[int], fresh: bool = False) -> tuple[Device, ...]:
        """The host last. `ours` are the pids of our children; their descendants are found.
        `fresh`: also ask now what is not asked at each look."""
        family = with_descendants(ours, self._proc)
        gpus = self.nvidia.read(family)
        others = self.listed.read(without_cuda=self.nvidia.knows_gpus, fresh=fresh)
        if self.nvidia.knows_gpus:
            others = tuple(device for device in others if device.kind != "CUDA")
        return self._limited((*gpus, *others, *self._host.read(family)))

    def ask_again(self) -> None:
        """Look at the next reading whether the engine sees other devices now. From any thread."""
        self.listed.ask_again()

    def close(self) -> None:
        self.nvidia.close()
        self.listed.close()

    def _limited(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        limits = self.limits
        warnings = limits.warnings({one.reading.device: one.reading.total for one in devices})
        for warning in warnings:
            if warning not in self.warnings:
                logger.warning("%s", warning)
        self.warnings = warnings
        return tuple(within(device, limits) for device in devices)


def within(device: Device, limits: Limits) -> Device:
    """With what may be used of it."""
    name, total = device.reading.device, device.reading.total
    reading = replace(
        device.reading, budget=limits.budget(name, total), margin=limits.margin(name, total)
    )
    return replace(device, reading=reading)
