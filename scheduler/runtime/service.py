"""The scheduler process: everything put together, from the lock to the last child reaped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from models_registry.engine_path import llama_server
from models_registry.engines import DECLARED, EngineKind
from scheduler.conf import SchedulerConfig
from scheduler.core.planner import Planner
from scheduler.core.sizes import Grant
from scheduler.core.values import InstanceId, PresetName

from .budget_journal import NAME as BUDGETS
from .budget_journal import BudgetJournal
from .catalog import Catalog
from .child import Spawn, spawned
from .child_log import RunLogs
from .child_streams import ChildStreams
from .child_watches import watches_of
from .control import ControlServer
from .conversations import Conversations
from .devices.device import Device
from .devices.limits import Limits
from .devices.readings import Devices
from .devices.watch import DeviceWatch
from .engines.base import Engine
from .engines.command import CommandEngine
from .engines.llama_server import LlamaServer
from .event_writer import EventWriter
from .health import rules_of
from .instance_run import InstanceRun, Told
from .kept_streams import KeptStreams
from .kv_saves.child_slots import ChildSlots
from .kv_saves.keeping import KvSaves
from .kv_saves.store import SaveStore
from .limiting import Limiting
from .lock import remove_leftovers
from .measures import Measures
from .offer import Offer
from .oom_kills import OomKills, oom_kill_counter
from .operations import Operations, say_refused
from .owner import Owner
from .read_ahead import ReadAhead
from .record import Record
from .remote_run import is_remote
from .rpc_children import grant_for_child, told_of
from .warmth import WarmthRecord

if TYPE_CHECKING:
    from scheduler.otlp import Telemetry

logger = logging.getLogger(__name__)

COUNT_KILLS_EVERY_SECONDS = 5.0
FIRST_LOOK_SECONDS = 15.0

TellLoadSeconds = Callable[[Callable[[Mapping[str, float]], None]], Awaitable[None]]


MOST_SAID = 10
"""Presets that cannot be started, in one go."""


class SchedulerService:
    """`run()` until `owner.stop()`, SIGTERM or SIGINT. Made and run under `lock.only_scheduler`."""

    def __init__(
        self,
        config: SchedulerConfig,
        *,
        record: Record,
        engine: Engine | None = None,
        spawn: Spawn = spawned,
        clock: Callable[[], float] = time.monotonic,
        measures: Measures | None = None,
        devices: Devices | None = None,
        load_times: TellLoadSeconds | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._config = config
        if telemetry is not None:
            record = self._traced(record, telemetry)
        record = self._warmth = WarmthRecord(record, lambda name: self.owner.offer.specs.get(name))
        self._measures = measures
        self._load_times = load_times
        self._has_offered = False
        self._problems: dict[str, str] = {}  # of presets, as they were last said
        requests_per_slot = config.planner.oversubscribe
        self.engine = engine or LlamaServer(llama_server, requests_per_slot=requests_per_slot)
        self._engines: Mapping[str, Engine] = {
            EngineKind.LLAMA_SERVER: self.engine,
            **dict.fromkeys(DECLARED, CommandEngine()),
        }
        self._spawn = spawn
        self._health = rules_of(config)
        self._logs = RunLogs(config.log_folder)
        self._oom_kills = OomKills(oom_kill_counter())
        self._event_log = (
            EventWriter(config.log_folder, config.planner, clock) if config.event_log else None
        )
        self._devices = devices
        self.owner = Owner(
            Planner(config.planner),
            make_run=self._make_run,
            wake=lambda run: run.engine.wake(run.address),
            clock=clock,
            record=record,
            note=self._event_log,
            measures=measures,
            limiting=_limiting(config, clock),
        )
        if devices is not None:
            self.owner.memory.watch = DeviceWatch(devices, ours=self._pids, told=self._devices_seen)
        self._seen_devices = asyncio.Event()
        self._kept = KeptStreams(config.run_folder)
        self._saves = KvSaves(self.owner, ChildSlots(), _save_store(config), config.kv_saves)
        self.operations = Operations(
            self.owner,
            conversations=Conversations(self.owner, ChildStreams(), self._kept),
            saves=self._saves,
            read_ahead=ReadAhead(self.owner, is_on=config.read_ahead),
            models_max=config.planner.models_max,
            autoload=config.autoload,
            answer_seconds=config.answer_timeout_seconds,
            measured=measures.look_soon if measures is not None else lambda: None,
        )

    async def run(self, catalog: Catalog | None = None) -> None:
        """Raises what a bug in the owner raised; every child is reaped all the same."""
        remove_leftovers(self._config.run_folder)
        await self._saves.open()
        if self._event_log is not None:
            self._event_log.start()
        catalog = catalog or Catalog(
            self.offer_changed,
            limits_changed=self._limits_changed,
            stop_timeout_seconds=self._config.stop_timeout_seconds,
        )
        try:
            await self._first_reading(catalog)
            with _asked_to_stop(self.owner.stop):
                await self._serve(catalog)
        finally:
            await catalog.close()
            if self.owner.memory.watch is not None:
                await self.owner.memory.watch.close()
            if self._measures is not None:
                await self._measures.close()
            if self._event_log is not None:
                self._event_log.stop()
            self.owner.limiting.close()
            self._warmth.close()
            self._kept.clear()
            await self._saves.close()

    async def _first_reading(self, catalog: Catalog) -> None:
        """A registry that cannot be read is no reason to be silent: the catalog tries again, and
        whoever asks meanwhile is told."""
        try:
            await catalog.read()
        except Exception as failure:
            catalog.say_unreadable(failure)

    async def _serve(self, catalog: Catalog) -> None:
        server = ControlServer(self.operations, lambda: self._reload(catalog))
        async with asyncio.TaskGroup() as tasks:
            sides = [
                tasks.create_task(catalog.watch(), name="catalog"),
                tasks.create_task(server.serve(self._config.control_socket), name="control"),
                tasks.create_task(self._count_kills(), name="oom-kills"),
            ]
            if self._load_times is not None:
                telling = self._tell_load_seconds(self._load_times)
                sides.append(tasks.create_task(telling, name="load-times"))
            if self._measures is not None:
                watch = self._measures.watch(self.owner.shapes_changed)
                sides.append(tasks.create_task(watch, name="measures"))
            if self.owner.memory.watch is not None:
                sides.append(tasks.create_task(self.owner.memory.watch.run(), name="devices"))
                await self._first_look()
            logger.info("listening on %s", self._config.control_socket)
            await tasks.create_task(self.owner.run(), name="owner")
            for side in sides:
                side.cancel()
        logger.info("every child has ended")

    async def _first_look(self) -> None:
        """Before anything is started: what devices have is what starts are decided by."""
        try:
            async with asyncio.timeout(FIRST_LOOK_SECONDS):
                await self._seen_devices.wait()
        except TimeoutError:
            logger.warning("the devices do not answer yet: models start without their figures")

    def _devices_seen(self, devices: tuple[Device, ...]) -> None:
        self.owner.memory.seen(devices)
        self._seen_devices.set()

    def _traced(self, record: Record, telemetry: Telemetry) -> Record:
        from .load_spans import LoadSpans  # OpenTelemetry's libraries, which only this needs

        return LoadSpans(
            record,
            telemetry,
            lambda preset: self.owner.waiting.waiters_of(preset),
            linked=not self._config.trust_trace_context,
        )

    def _limits_changed(self, limits: Limits) -> None:
        if self._devices is not None:
            self._devices.limits = limits
        self.owner.memory.limit(limits)

    def _pids(self) -> set[int]:
        return {run.pid for run in self.owner.runs.values() if run.pid is not None}

    def _make_run(
        self, instance: InstanceId, preset: PresetName, grant: Grant, told: Told
    ) -> InstanceRun:
        spec = self.owner.offer.specs[preset]
        known = self.owner.figures.shape_of(spec)
        servers = self._devices.rpc if self._devices is not None else ()
        spec, names = told_of(spec, grant, servers)
        return InstanceRun(
            instance,
            self._saves.prepared(instance, spec, grant),
            grant=grant_for_child(grant, names),
            names=names,
            unreported=known.unreported if known is not None else 0,
            socket=fresh_socket(self._config.run_folder, instance),
            engine=self._engines[spec.engine.kind],
            spawn=self._spawn,
            log=self._logs.begun(preset, instance),
            told=told,
            watches=lambda run: watches_of(run, self._health, lambda: self._works(instance)),
            killed_for_memory=self._oom_kills.claim,
            totals=lambda: self.owner.memory.totals,
            before_ready=self._saves.before_ready,
        )

    def _works(self, instance: InstanceId) -> bool:
        known = self.owner.planner.instances.get(instance)
        return known is not None and not known.idle

    async def _count_kills(self) -> None:
        while True:
            await asyncio.sleep(COUNT_KILLS_EVERY_SECONDS)
            self._oom_kills.look()

    async def _tell_load_seconds(self, load_times: TellLoadSeconds) -> None:
        await load_times(self.owner.learn_load_seconds)

    def offer_changed(self, offer: Offer) -> None:
        logger.info("the registry is at revision %d: %d presets", offer.revision, len(offer.specs))
        self._say_problems(offer)
        self.owner.offer_changed(offer)
        if not self._has_offered:
            self._has_offered = True
            self._load_on_startup()
        if self._measures is not None:
            self._measures.look_soon()

    def _say_problems(self, offer: Offer) -> None:
        """Once each, and no more than a person reads: a disk may be away with a thousand models."""
        problems = {spec.preset: spec.problem for spec in offer.specs.values() if spec.problem}
        new = [name for name, problem in problems.items() if self._problems.get(name) != problem]
        for name in new[:MOST_SAID]:
            logger.warning("preset %s cannot be started: %s", name, problems[name])
        if len(new) > MOST_SAID:
            logger.warning(
                "%d more presets cannot be started: their pages say why", len(new) - MOST_SAID
            )
        self._problems = problems

    async def _reload(self, catalog: Catalog) -> int:
        revision = await catalog.read()
        await self.owner.caught_up()
        return revision

    def _load_on_startup(self) -> None:
        """In the turn after the owner's first presets; not repeated on a reload."""

        def load() -> None:
            for name, spec in sorted(self.owner.offer.specs.items()):
                if spec.load_on_startup and not is_remote(spec):
                    self.operations.load_on_startup(name, say_refused)

        self.owner.post(load)


def _limiting(config: SchedulerConfig, clock: Callable[[], float]) -> Limiting:
    journal = BudgetJournal(config.var / BUDGETS)
    return Limiting(clock, journal=journal, answer_tokens=config.answer_tokens)


def _save_store(config: SchedulerConfig) -> SaveStore | None:
    """None where the budget is 0."""
    if config.kv_saves_bytes == 0:
        return None
    lasts = config.kv_saves.lasts_seconds
    return SaveStore(config.var / "kv", config.kv_saves_bytes, lasts_seconds=lasts)


def fresh_socket(run_folder: Path, instance: InstanceId) -> Path:
    """A path that no child has listened on: a leftover file makes a bind fail."""
    return run_folder / f"i-{instance}-{secrets.token_hex(3)}.sock"


@contextlib.contextmanager
def _asked_to_stop(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT call `stop`, each time."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
