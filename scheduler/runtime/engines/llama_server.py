"""The native llama-server, which speaks llama.cpp's child protocol by itself.

It listens on a Unix socket, one fresh path per start: it does not remove the file at its exit, and
a leftover one makes the next bind fail.
"""

from __future__ import annotations

import errno
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from models_registry.errors import EngineMissing
from models_registry.launch import LaunchSpec
from scheduler.core.sizes import NOTHING_GRANTED, Grant

from .base import CannotStart, Command
from .granted import granted_argv

logger = logging.getLogger(__name__)

SLOTS_SECONDS = 2.0
WAKE_SECONDS = 600.0
"""A wake reads the weights again; the answer comes after that."""
THREADS_BESIDE_REQUESTS = 8
"""For what is asked of a child while all its slots work: /health, /slots, a look at its /props."""

_OUR_OWN_WANT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_VERBOSITY = frozenset({"--log-verbosity", "--log-verbose"})
_EMBEDS_ONLY = frozenset({"--embedding", "--embeddings", "--rerank", "--reranking"})

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
        *("--offline", "--no-ui", "--log-colors", "off", "--slots", *_verbosity(argv)),
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

    def command(self, spec: LaunchSpec, address: Path, grant: Grant = NOTHING_GRANTED) -> Command:
        try:
            program = self._program()
        except EngineMissing as missing:
            raise CannotStart(str(missing)) from missing
        argv = command_line(
            program,
            (*spec.argv, *granted_argv(spec.memory_options, grant)),
            preset=spec.preset,
            address=str(address),
            requests_per_slot=self._requests_per_slot,
        )
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

    async def is_alive(self, address: Path) -> bool | None:
        # While it computes and while it sleeps /health answers within milliseconds, from a thread
        # of its own, and does not count as use (measured; so do /props and /v1/models, while /slots
        # waits for a step of the computation and wakes a sleeper).
        try:
            async with self._asking(address) as session, session.get("http://localhost/health"):
                return True
        except OSError as failure:
            return None if _is_our_own(failure) else False
        except aiohttp.ClientError:
            return False

    async def probe(self, spec: LaunchSpec, address: Path) -> str:
        asked = {"/completion": {"prompt": "Hello", "n_predict": 1, "cache_prompt": False}}
        if not _EMBEDS_ONLY.isdisjoint(spec.argv):
            asked = {}
        # A model that has no generation says so with 501; what it is there for is an embedding.
        asked["/embedding"] = {"content": "Hello"}
        answer = ""
        for path, body in asked.items():
            status, answer = await self._post(address, path, body)
            if status == 200:
                return ""
            if status != 501:
                break
        return answer

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
        protocol = {"LLAMA_SERVER_ROUTER_PORT": "1", "LLAMA_SERVER_CHILD_ROLE": "instance"}
        return {**inherited_environment(self._inherited), **own, **protocol}

    def _asking(self, address: Path, seconds: float | None = None) -> aiohttp.ClientSession:
        connector = aiohttp.UnixConnector(str(address), force_close=True)
        return aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=seconds)
        )

    async def _post(self, address: Path, path: str, body: object) -> tuple[int, str]:
        """Its status, and what is wrong where it is not 200; (0, why) when no answer came."""
        try:
            async with (
                self._asking(address) as session,
                session.post(f"http://localhost{path}", data=msgspec.json.encode(body)) as answer,
            ):
                said = (await answer.read()).decode(errors="replace")
                return answer.status, f"POST {path} was answered {answer.status}: {said[:300]}"
        except (aiohttp.ClientError, OSError) as failure:
            return 0, f"POST {path} was not answered: {failure}"

    async def _get(self, address: Path, path: str, seconds: float) -> object:
        """The decoded answer; None when there was none that could be read."""
        try:
            async with (
                self._asking(address, seconds) as session,
                session.get(f"http://localhost{path}") as answer,
            ):
                if answer.status != 200:
                    return None
                return msgspec.json.decode(await answer.read())
        except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as failure:
            logger.debug("no reading of %s: %s", address, failure)
            return None


def _is_our_own(failure: OSError) -> bool:
    """No descriptor, no memory: that says nothing of whom we asked."""
    cause = getattr(failure, "os_error", failure)  # aiohttp wraps it
    return isinstance(cause, OSError) and cause.errno in _OUR_OWN_WANT
