"""A scheduler in this process with fake_llama_server children, for the tests of this folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from models_registry.engines import EngineKind, EngineSetup
from models_registry.launch import LaunchSpec
from scheduler.client import SchedulerClient
from scheduler.conf import SchedulerConfig
from scheduler.core.values import Config
from scheduler.protocol import SnapshotState
from scheduler.run_folder import control_socket, make_run_folder
from scheduler.runtime.catalog import Catalog, Reading
from scheduler.runtime.engines.llama_server import LlamaServer
from scheduler.runtime.record import Entry, Started
from scheduler.runtime.service import SchedulerService

FAKE = Path(__file__).with_name("fake_llama_server.py")
PATIENCE = 30.0


def preset(name: str = "small", *flags: str, parallel: int = 1, **fields: object) -> LaunchSpec:
    """A preset whose child takes the flags of fake_llama_server.py."""
    argv = ("--parallel", str(parallel), *flags)
    spec = LaunchSpec(name, (), "", argv, parallel, fingerprint=" ".join(argv))
    return replace(spec, stop_timeout_seconds=0.5) if not fields else replace(spec, **fields)


STAND_IN = Path(__file__).parents[1] / "support" / "openai_stand_in.py"


def served(
    name: str = "a", *flags: str, by: str = "port", parallel: int = 1, **fields: Any
) -> LaunchSpec:
    """A preset of the engine `command`, run by tests/support/openai_stand_in.py."""
    line = shlex.join([sys.executable, str(STAND_IN), f"--{by}", f"${{{by}}}", *flags])
    setup = EngineSetup(EngineKind.COMMAND, command_line=line, declared={"Host": 64 << 20})
    spec = LaunchSpec(name, (), "", (), parallel, fingerprint=line, engine=setup)
    return replace(spec, stop_timeout_seconds=0.5, **fields)


@dataclass
class FixedRegistry:
    """Stands where the database stands."""

    specs: list[LaunchSpec]
    number: int = 1
    unreadable: Exception | None = None

    def revision(self) -> int:
        return self.number

    def read(self) -> Reading:
        if self.unreadable is not None:
            raise self.unreadable
        return Reading(self.number, tuple(self.specs))

    def close(self) -> None:
        pass


@dataclass
class Running:
    service: SchedulerService
    client: SchedulerClient
    registry: FixedRegistry
    config: SchedulerConfig
    task: asyncio.Task[None]
    entries: list[Entry] = field(default_factory=list)

    @property
    def starts(self) -> list[str]:
        return [entry.preset for entry in self.entries if isinstance(entry, Started)]

    async def snapshot(self) -> SnapshotState:
        return await self.client.snapshot()

    async def nothing_runs(self) -> bool:
        return not (await self.snapshot()).instances


@contextlib.contextmanager
def short_var() -> Iterator[Path]:
    """A CORRAL_VAR with a path short enough for a socket; pytest's tmp_path may not be."""
    var = Path(tempfile.mkdtemp(prefix="cv-"))
    try:
        yield var
    finally:
        shutil.rmtree(var)


def config_in(
    var: Path,
    *,
    models_max: int = 4,
    autoload: bool = True,
    oversubscribe: float = 1.0,
    **fields: Any,
) -> SchedulerConfig:
    return SchedulerConfig(
        planner=Config(models_max=models_max, oversubscribe=oversubscribe),
        var=var,
        run_folder=make_run_folder(var),
        control_socket=control_socket(var),
        log_folder=var / "logs",
        autoload=autoload,
        stop_timeout_seconds=0.5,
        **fields,
    )


@contextlib.asynccontextmanager
async def running(
    specs: Sequence[LaunchSpec] = (),
    *,
    program: Path = FAKE,
    models_max: int = 4,
    autoload: bool = True,
    var: Path | None = None,
    unreadable: Exception | None = None,
    **fields: Any,
) -> AsyncIterator[Running]:
    with short_var() if var is None else contextlib.nullcontext(var) as folder:
        config = config_in(folder, models_max=models_max, autoload=autoload, **fields)
        registry = FixedRegistry(list(specs) or [preset()], unreadable=unreadable)
        entries: list[Entry] = []
        service = SchedulerService(
            config,
            record=entries.append,
            engine=LlamaServer(lambda: program, requests_per_slot=config.planner.oversubscribe),
        )
        catalog = Catalog(
            service.offer_changed,
            stop_timeout_seconds=0.5,
            registry=registry,
            look_every_seconds=2.0 if unreadable is None else 0.05,
        )
        task = asyncio.create_task(service.run(catalog))
        client = SchedulerClient(config.control_socket, reconnect_wait_seconds=PATIENCE)
        await client.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await client.ping()
                yield Running(service, client, registry, config, task, entries)
        finally:
            await client.close()
            service.owner.stop()
            await task


async def until(condition: Callable[[], Awaitable[object]], what: str) -> None:
    """Asks again until it is so; the test's own deadline ends a wait in vain."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not await condition():  # noqa: ASYNC110 - there is no event for what others do
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {PATIENCE} s") from None


def exists(path: str | Path) -> bool:
    return Path(path).exists()


def children(of: int | str | None = None) -> list[str]:
    """Pids of this process's (or another's) living children, straight from the kernel."""
    parent = os.getpid() if of is None else of
    return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()


def is_alive(pid: int) -> bool:
    """A zombie is not: it has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"
