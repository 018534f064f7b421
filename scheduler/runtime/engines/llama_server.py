"""The native llama-server, which speaks llama.cpp's child protocol by itself.

It listens on a Unix socket, one fresh path per start: it does not remove the file at its exit, and
a leftover one makes the next bind fail.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from models_registry.errors import EngineMissing
from models_registry.launch import LaunchSpec
from scheduler.core.sizes import NOTHING_GRANTED, Grant

from . import http
from .base import CannotStart, Command
from .granted import granted_argv

SLOTS_SECONDS = 2.0
WAKE_SECONDS = 600.0
"""A wake reads the weights again; the answer comes after that."""
THREADS_BESIDE_REQUESTS = 8
"""For what is asked of a child while all its slots work: /health, /slots, a look at its /props."""

_VERBOSITY = frozenset({"--log-verbosity", "--log-verbose"})
EMBEDS_ONLY = frozenset({"--embedding", "--embeddings", "--rerank", "--reranking"})

_INHERITED = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME"}
)
# What chooses and tunes devices. LLAMA_ARG_* is left out: the registry has merged it already.
_INHERITED_PREFIXES = (
    "CUDA_", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "ROCM_", "GGML_", "VK_", "OMP_", "GOMP_",
    "ONEAPI_", "SYCL_", "ZE_",
)  # fmt: skip


NO_FOLDER = "/nonexistent"  # as Debian calls the home of those that have none


def inherited_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a child gets of ours: no secrets, and the same devices by the same names."""
    inherited = {
        name: value
        for name, value in environment.items()
        if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
    # Without this an abort runs a debugger on itself first and keeps its memory meanwhile.
    inherited.setdefault("GGML_NO_BACKTRACE", "1")
    # The engine would read ~/.config/llama.cpp/config.ini: options that nobody here has seen.
    inherited["XDG_CONFIG_HOME"] = NO_FOLDER
    # NVML numbers by the bus, and CUDA<n> shall be the same device to both.
    inherited["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return inherited


def command_line(
    program: Path,
    argv: Sequence[str],
    *,
    preset: str,
    address: str,
    requests_per_slot: float = 1.0,
) -> tuple[str, ...]:
    """What is run: the preset's own options, then what makes a server a child of ours."""
    return (
        str(program),
        *argv,
        *("--host", address, "--port", "1", "--alias", preset),
        *("--offline", "--no-ui", "--log-colors", "off", "--slots", "--metrics"),
        *_verbosity(argv),
        *("--threads-http", str(_http_threads(argv, requests_per_slot))),
    )


def _verbosity(argv: Sequence[str]) -> tuple[str, ...]:
    """At 4 it says what it allocates. A preset may have its own."""
    return () if _VERBOSITY.intersection(argv) else ("--log-verbosity", "4")


def _http_threads(argv: Sequence[str], requests_per_slot: float) -> int:
    """Each request holds a thread of the server from its arrival to the end of its answer. Left to
    itself it has a few, and makes more as requests come, but not when they come at once (seen: six
    at once, and /health was silent until one of them ended). So it gets one for each request that
    it may be sent, and some for questions."""
    requests = math.ceil(_number(argv, "--parallel") * requests_per_slot)
    return max(_number(argv, "--threads-http"), requests + THREADS_BESIDE_REQUESTS)


def _number(argv: Sequence[str], option: str) -> int:
    """The last one given; 0 when there is none."""
    given = [value for name, value in pairwise(argv) if name == option]
    return int(given[-1]) if given and given[-1].isdecimal() else 0


class LlamaServer:
    """`program` is asked at each start: a newly installed engine counts from then on.
    `requests_per_slot` is how many a child may be given at once for each of its slots."""

    tells_slots = True

    def __init__(
        self,
        program: Callable[[], Path],
        inherited: Mapping[str, str] = os.environ,
        *,
        requests_per_slot: float = 1.0,
    ) -> None:
        self._program = program
        self._inherited = inherited
        self._requests_per_slot = requests_per_slot

    def command(self, spec: LaunchSpec, address: str, grant: Grant = NOTHING_GRANTED) -> Command:
        try:
            program = self._program()
        except EngineMissing as missing:
            raise CannotStart(str(missing)) from missing
        argv = command_line(
            program,
            (*spec.argv, *granted_argv(spec.memory_options, grant)),
            preset=spec.preset,
            address=address,
            requests_per_slot=self._requests_per_slot,
        )
        return Command(argv, self._environment(spec.env))

    def address(self, payload: Mapping[str, Any]) -> str:
        return ""

    async def heeds_exit(self, address: str) -> bool:
        # An `exit` between `ready` and the start of its loop is lost, one in ten when sent at once:
        # the loop then starts and never ends. Only the running loop answers /slots.
        return await self.busy_slots(address) is not None

    async def wake(self, address: str) -> None:
        # Anything but /health, /props, /models and /metrics wakes it, and this one costs nothing.
        await http.get(address, "/slots", WAKE_SECONDS)

    async def busy_slots(self, address: str) -> int | None:
        slots = await http.get(address, "/slots", SLOTS_SECONDS)
        if not isinstance(slots, list):
            return None
        return sum(1 for slot in slots if isinstance(slot, dict) and slot.get("is_processing"))

    async def is_alive(self, address: str) -> bool | None:
        # While it computes and while it sleeps /health answers within milliseconds, from a thread
        # of its own, and does not count as use (measured; so do /props and /v1/models, while /slots
        # waits for a step of the computation and wakes a sleeper).
        return await http.answers(address, "/health")

    async def gets_on(self, address: str) -> bool | None:
        return await http.answers(address, "/slots")

    async def probe(self, spec: LaunchSpec, address: str) -> str:
        asked = {"/completion": {"prompt": "Hello", "n_predict": 1, "cache_prompt": False}}
        if not EMBEDS_ONLY.isdisjoint(spec.argv):
            asked = {}
        # A model that has no generation says so with 501; what it is there for is an embedding.
        asked["/embedding"] = {"content": "Hello"}
        answer = ""
        for path, body in asked.items():
            status, answer = await http.post(address, path, body)
            if status == 200:
                return ""
            if status != 501:
                break
        return answer

    async def is_asleep(self, address: str) -> bool:
        props = await http.get(address, "/props", SLOTS_SECONDS)
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
        protocol = {"LLAMA_SERVER_ROUTER_PORT": "1", "LLAMA_SERVER_CHILD_ROLE": "instance"}
        return {**inherited_environment(self._inherited), **own, **protocol}
