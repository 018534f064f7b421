"""The native llama-server, which speaks llama.cpp's child protocol by itself.

It listens on a Unix socket, one fresh path per start: it does not remove the file at its exit, and
a leftover one makes the next bind fail.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from models_registry.errors import EngineMissing
from models_registry.launch import LaunchSpec

from .base import CannotStart, Command

logger = logging.getLogger(__name__)

SLOTS_SECONDS = 2.0
WAKE_SECONDS = 600.0
"""A wake reads the weights again; the answer comes after that."""

_INHERITED = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"}
)
# What chooses and tunes devices. LLAMA_ARG_* is left out: the registry has merged it already.
_INHERITED_PREFIXES = (
    "CUDA_", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "ROCM_", "GGML_", "VK_", "OMP_", "GOMP_",
    "ONEAPI_", "SYCL_", "ZE_",
)  # fmt: skip


def command_line(
    program: Path, argv: Sequence[str], *, preset: str, address: str
) -> tuple[str, ...]:
    """What is run: the preset's own options, then what makes a server a child of ours."""
    return (
        str(program),
        *argv,
        *("--host", address, "--port", "1", "--alias", preset),
        *("--offline", "--no-ui", "--log-colors", "off", "--slots"),
    )


class LlamaServer:
    """`program` is asked at each start: a newly installed engine counts from then on."""

    def __init__(
        self, program: Callable[[], Path], inherited: Mapping[str, str] = os.environ
    ) -> None:
        self._program = program
        self._inherited = inherited

    def command(self, spec: LaunchSpec, address: Path) -> Command:
        try:
            program = self._program()
        except EngineMissing as missing:
            raise CannotStart(str(missing)) from missing
        argv = command_line(program, spec.argv, preset=spec.preset, address=str(address))
        return Command(argv, self._environment(spec.env))

    async def heeds_exit(self, address: Path) -> bool:
        # An `exit` between `ready` and the start of its loop is lost, one in ten when sent at once:
        # the loop then starts and never ends. Only the running loop answers /slots.
        return await self.busy_slots(address) is not None

    async def wake(self, address: Path) -> None:
        # Anything but /health, /props, /models and /metrics wakes it, and this one costs nothing.
        await self._get(address, "/slots", WAKE_SECONDS)

    async def busy_slots(self, address: Path) -> int | None:
        slots = await self._get(address, "/slots", SLOTS_SECONDS)
        if not isinstance(slots, list):
            return None
        return sum(1 for slot in slots if isinstance(slot, dict) and slot.get("is_processing"))

    async def is_asleep(self, address: Path) -> bool:
        props = await self._get(address, "/props", SLOTS_SECONDS)
        return isinstance(props, dict) and props.get("is_sleeping") is True

    def progress(self, payload: Mapping[str, Any]) -> float | None:
        stages, current, value = payload.get("stages"), payload.get("current"), payload.get("value")
        if not isinstance(value, int | float) or not isinstance(stages, list) or not stages:
            return None
        if current not in stages:
            return None
        return min(1.0, max(0.0, (stages.index(current) + float(value)) / len(stages)))

    def meta(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        return dict(payload)

    def _environment(self, own: Mapping[str, str]) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in self._inherited.items()
            if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
        }
        # Without this an abort runs a debugger on itself first and keeps its memory meanwhile.
        inherited.setdefault("GGML_NO_BACKTRACE", "1")
        protocol = {"LLAMA_SERVER_ROUTER_PORT": "1", "LLAMA_SERVER_CHILD_ROLE": "instance"}
        return {**inherited, **own, **protocol}

    async def _get(self, address: Path, path: str, seconds: float) -> object:
        """The decoded answer; None when there was none that could be read."""
        connector = aiohttp.UnixConnector(str(address), force_close=True)
        timeout = aiohttp.ClientTimeout(total=seconds)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.get(f"http://localhost{path}") as answer,
            ):
                if answer.status != 200:
                    return None
                return msgspec.json.decode(await answer.read())
        except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as failure:
            logger.debug("no reading of %s: %s", address, failure)
            return None
