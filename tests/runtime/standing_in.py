"""A child that is a stand-in at the `spawn` argument: it says and does what a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from models_registry.launch import LaunchSpec
from scheduler.core.planner import Planner
from scheduler.core.sizes import NOTHING_GRANTED, Grant
from scheduler.core.values import Config
from scheduler.protocol import Acquire, Refused
from scheduler.runtime.child import Heard, HeardLog
from scheduler.runtime.child_log import ChildLog
from scheduler.runtime.child_streams import Held
from scheduler.runtime.child_watches import watches_of
from scheduler.runtime.conversations import Conversations
from scheduler.runtime.engines.base import Command
from scheduler.runtime.health import HealthRule, HealthRules
from scheduler.runtime.hearing import Stream
from scheduler.runtime.instance_run import InstanceRun
from scheduler.runtime.kept_streams import KeptStreams
from scheduler.runtime.kv_saves.child_slots import ChildSlots
from scheduler.runtime.kv_saves.keeping import KvSaves
from scheduler.runtime.limiting import Limiting
from scheduler.runtime.offer import Offer
from scheduler.runtime.operations import Operations
from scheduler.runtime.owner import Note, Owner
from scheduler.runtime.read_ahead import ReadAhead
from scheduler.runtime.record import Entry, Started

PATIENCE = 10.0
NEVER_ASKED = HealthRule(every_seconds=0.0)


def preset(name: str = "a", parallel: int = 1, **fields: Any) -> LaunchSpec:
    spec = LaunchSpec(name, (), "", ("--parallel", str(parallel)), parallel, f"{name}{parallel}")
    return replace(spec, **fields)


class StandIn:
    """Ready at once unless told otherwise; ends when it is asked to, or killed."""

    def __init__(self, heard: Heard, pid: int, *, obedient: bool = True) -> None:
        self.pid = pid
        self.asked = 0
        self.killed = 0
        self._heard = heard
        self._obedient = obedient
        self._returncode: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def say(self, state: str, payload: object = None, stream: Stream = Stream.OUT) -> None:
        line = json.dumps({"state": state, "payload": payload or {}})
        self._heard(f"cmd_child_to_router:state:{line}".encode(), stream)

    def log(self, line: str, stream: Stream = Stream.ERR) -> None:
        self._heard(line.encode(), stream)

    def end(self, returncode: int = 0) -> None:
        if not self._returncode.done():
            self._returncode.set_result(returncode)

    def ask_exit(self) -> None:
        self.asked += 1
        if self._obedient:
            self.end()

    def kill(self) -> None:
        if not self._returncode.done():
            self.killed += 1
        self.end(-9)

    def gather_log(self, heard: HeardLog) -> None:
        """What it logs from now on comes as blocks, as a real child's does."""
        before = self._heard

        def heard_line(line: bytes, stream: Stream) -> None:
            if stream is Stream.ERR:
                heard(line + b"\n")
            else:
                before(line, stream)

        self._heard = heard_line

    async def ended(self) -> int:
        return await asyncio.shield(self._returncode)


class StandInEngine:
    tells_slots = True

    def __init__(self) -> None:
        self.settled = asyncio.Event()
        self.settled.set()
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = 0
        self.busy: int | None = 0
        self.asleep = False
        self.woken: list[str] = []
        self.alive = asyncio.Event()
        self.alive.set()
        self.health_asked = 0
        self.steps = asyncio.Event()
        self.steps.set()
        self.steps_asked = 0
        self.generates = asyncio.Event()
        self.generates.set()
        self.probed: list[str] = []
        self.probe_fails = ""
        self.grants: list[Grant] = []

    def command(self, spec: LaunchSpec, address: str, grant: Grant = NOTHING_GRANTED) -> Command:
        self.grants.append(grant)
        return Command(("engine", *spec.argv))

    def address(self, payload: object) -> str:
        return ""

    async def heeds_exit(self, address: str) -> bool:
        await self.settled.wait()
        return True

    async def wake(self, address: str) -> None:
        self.woken.append(address)

    async def busy_slots(self, address: str) -> int | None:
        self.asked += 1
        await self.answers.wait()
        return self.busy

    async def is_alive(self, address: str) -> bool | None:
        self.health_asked += 1
        await self.alive.wait()
        return True

    async def gets_on(self, address: str) -> bool | None:
        self.steps_asked += 1
        await self.steps.wait()
        return True

    async def probe(self, spec: LaunchSpec, address: str) -> str:
        self.probed.append(spec.preset)
        await self.generates.wait()
        return self.probe_fails

    async def is_asleep(self, address: str) -> bool:
        return self.asleep

    def progress(self, payload: Any) -> float | None:
        return payload.get("value")

    def meta(self, payload: Any) -> dict[str, Any]:
        return dict(payload)


class StandInStreams:
    """What the children know of streams: a test says it."""

    def __init__(self) -> None:
        self.known: dict[str, Held] | None = {}
        self.bytes: dict[str, tuple[int, bytes]] = {}
        self.stopped: list[str] = []
        self.looks = 0
        self.readable = asyncio.Event()
        self.readable.set()

    def write(self, key: str, data: bytes, *, done: bool) -> None:
        assert self.known is not None
        self.known[key] = Held(key, done, len(data))
        self.bytes[key] = 0, data

    async def look(self, address: str, keys: Sequence[str]) -> dict[str, Held] | None:
        self.looks += 1
        if self.known is None:
            return None
        return {key: self.known[key] for key in keys if key in self.known}

    async def stop(self, address: str, key: str) -> None:
        self.stopped.append(key)

    async def read(self, address: str, key: str) -> tuple[int, bytes] | None:
        await self.readable.wait()
        return self.bytes.get(key)


@dataclass
class Stage:
    """An owner whose children are stand-ins."""

    owner: Owner
    operations: Operations
    engine: StandInEngine
    children: list[StandIn]
    entries: list[Entry]
    streams: StandInStreams
    task: asyncio.Task[None] = field(init=False)

    @property
    def starts(self) -> list[str]:
        return [entry.preset for entry in self.entries if isinstance(entry, Started)]

    def offers(self, *specs: LaunchSpec, revision: int = 1) -> None:
        self.owner.offer_changed(Offer.of(revision, specs, 0.2))

    def ask(self, name: str, **fields: Any) -> Asking:
        answer: asyncio.Future[InstanceRun | Refused] = asyncio.get_running_loop().create_future()
        asked = Acquire(1, name, **fields)
        return Asking(self, self.operations.acquire(asked, answer.set_result), answer)

    def queue(self) -> list[Any]:
        return self.owner.planner.entries(self.owner.clock())

    def leases(self) -> int:
        return sum(len(instance.leases) for instance in self.owner.planner.instances.values())


@dataclass
class Asking:
    stage: Stage
    request: Any
    answer: asyncio.Future[InstanceRun | Refused]

    def cancel(self) -> None:
        self.stage.operations.leases.cancel(self.request)

    def desert(self) -> None:
        self.stage.operations.leases.desert(self.request)

    def release(self, tokens: int | None = None, **how: bool) -> None:
        self.stage.operations.leases.release(self.request, lambda ended: None, tokens=tokens, **how)

    async def run(self) -> InstanceRun:
        answer = await self.answer
        assert isinstance(answer, InstanceRun), answer
        return answer

    async def refusal(self) -> Refused:
        answer = await self.answer
        assert isinstance(answer, Refused), answer
        return answer


@contextlib.asynccontextmanager
async def staged(
    *specs: LaunchSpec,
    models_max: int = 4,
    ready: bool = True,
    obedient: bool = True,
    planner: Any = None,
    clock: Callable[[], float] = time.monotonic,
    spawn_fails: Sequence[OSError] = (),
    health: HealthRule = NEVER_ASKED,
    steps: HealthRule = NEVER_ASKED,
    killed_for_memory: Callable[[], bool] = lambda: False,
    note: Note | None = None,
    keep_in: Path = Path("/nonexistent"),
    sockets: Path = Path("/nonexistent"),
    limiting: Limiting | None = None,
    read: Callable[[Owner], ReadAhead | None] = lambda owner: None,
    save: Callable[[Owner], KvSaves] = lambda owner: KvSaves(owner, ChildSlots()),
) -> AsyncIterator[Stage]:
    """Ends with every stand-in ended and the owner's task over, unless it has failed."""
    children: list[StandIn] = []
    entries: list[Entry] = []
    engine = StandInEngine()
    failures = list(spawn_fails)

    async def spawn(command: Command, heard: Heard) -> StandIn:
        await asyncio.sleep(0)
        if failures:
            raise failures.pop(0)
        child = StandIn(heard, 1000 + len(children), obedient=obedient)
        children.append(child)
        if ready:
            asyncio.get_running_loop().call_soon(child.say, "ready")
        return child

    def make_run(instance: Any, name: Any, grant: Grant, told: Any) -> InstanceRun:
        return InstanceRun(
            instance,
            saves.prepared(instance, owner.offer.specs[name], grant),
            grant=grant,
            socket=sockets / f"{instance}.sock",
            engine=engine,
            spawn=spawn,
            log=ChildLog(None),
            told=told,
            watches=lambda run: watches_of(
                run,
                HealthRules(health, steps),
                lambda: not owner.planner.instances[instance].idle,
            ),
            killed_for_memory=killed_for_memory,
            before_ready=saves.before_ready,
        )

    owner = Owner(
        planner or Planner(Config(models_max=models_max)),
        make_run=make_run,
        wake=lambda run: engine.wake(run.address),
        clock=clock,
        record=entries.append,
        note=note,
        limiting=limiting,
    )
    streams = StandInStreams()
    conversations = Conversations(owner, streams, KeptStreams(keep_in))
    saves = save(owner)
    await saves.open()
    operations = Operations(
        owner,
        models_max=models_max,
        conversations=conversations,
        saves=saves,
        read_ahead=read(owner),
    )
    stage = Stage(owner, operations, engine, children, entries, streams)
    stage.offers(*(specs or (preset("a"), preset("b"))))
    stage.task = asyncio.create_task(owner.run())
    try:
        async with asyncio.timeout(PATIENCE):
            yield stage
    finally:
        if not stage.task.done():
            owner.stop()
            async with asyncio.timeout(PATIENCE):
                await stage.task
        await saves.close()


async def until(condition: Callable[[], object]) -> None:
    """Asks again until it is so; the stage's own deadline ends a wait in vain."""
    while not condition():  # noqa: ASYNC110 - there is no event for what a test looks at
        await asyncio.sleep(0.002)


async def steps(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
