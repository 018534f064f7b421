"""The door to the registry: it tells of a change once, and outlives a database that is away."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest
from django.db import OperationalError

from scheduler.runtime.catalog import Catalog, Reading

from .standing_in import PATIENCE, preset, staged


class Table:
    """Stands where the registry's rows stand."""

    def __init__(self, *specs):
        self.number = 1
        self.specs = specs
        self.away = False
        self.broken = None
        self.reads = 0
        self.failed = 0
        self.closed = False
        self.files = "away"
        self.looks = 0
        self.asked_for = []

    def revision(self):
        self._answer()
        self.looks += 1
        return self.number

    def outside(self, files):
        self.asked_for = list(files)
        return self.files

    async def is_looked_at(self, times):
        until = self.looks + times
        async with asyncio.timeout(PATIENCE):
            while self.looks < until:  # noqa: ASYNC110 - it is counted by a thread
                await asyncio.sleep(0.002)

    def read(self):
        self._answer()
        self.reads += 1
        return Reading(self.number, self.specs)

    def close(self):
        self.closed = True

    def change(self, *specs):
        self.specs = specs
        self.number += 1

    def _answer(self):
        if self.away:
            raise OperationalError("the database is away")
        if self.broken is not None:
            self.failed += 1
            raise self.broken


class Told(list):
    async def reaches(self, count):
        async with asyncio.timeout(PATIENCE):
            while len(self) < count:  # noqa: ASYNC110 - it is filled by a thread's result
                await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def watching(table):
    told = Told()
    catalog = Catalog(told.append, stop_timeout_seconds=10, registry=table, look_every_seconds=0.01)
    await catalog.read()
    task = asyncio.create_task(catalog.watch())
    yield told, catalog
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await catalog.close()


async def test_a_change_is_noticed_without_being_told():
    table = Table(preset("a"))
    async with watching(table) as (told, _):
        table.change(preset("a"), preset("b"))
        await told.reaches(2)

        assert [offer.names() for offer in told] == [["a"], ["a", "b"]]
        assert told[-1].revision == 2


async def test_an_unchanged_registry_is_told_of_once():
    table = Table(preset("a"))
    async with watching(table) as (told, catalog):
        for _ in range(3):
            await catalog.read()

        assert len(told) == 1


async def test_a_broken_preset_is_read_again_when_its_file_is_back_without_a_new_revision():
    table = Table(preset("a", problem="its file is missing", files=("a.gguf",)))
    async with watching(table) as (told, _):
        table.specs = (preset("a"),)
        table.files = "back"
        await told.reaches(2)

        assert told[-1].specs["a"].problem == ""


async def test_a_broken_preset_alone_is_no_reason_to_read_a_thousand_again():
    table = Table(preset("a", problem="its file is missing", files=("a.gguf",)), preset("b"))
    async with watching(table) as _:
        await table.is_looked_at(4)
        reads = table.reads
        await table.is_looked_at(4)

        assert table.reads == reads
        assert table.asked_for == ["a.gguf"]


async def test_a_database_that_is_away_leaves_the_old_presets():
    table = Table(preset("a"))
    async with watching(table) as (told, _):
        table.away = True
        await asyncio.sleep(0.05)
        table.change(preset("b"))
        table.away = False
        await told.reaches(2)

        assert [offer.names() for offer in told] == [["a"], ["b"]]


async def test_a_first_reading_that_fails_says_so():
    table = Table()
    table.away = True
    catalog = Catalog([].append, stop_timeout_seconds=10, registry=table)
    with pytest.raises(OperationalError):
        await catalog.read()
    await catalog.close()

    assert table.closed


async def test_a_preset_without_a_stop_timeout_gets_the_settings_and_0_is_one():
    table = Table(
        preset("a"), preset("b", stop_timeout_seconds=3.0), preset("c", stop_timeout_seconds=0.0)
    )
    async with watching(table) as (told, _):
        times = [spec.stop_timeout_seconds for spec in told[0].preset_specs(lambda spec: None)]

        assert times == [10, 3.0, 0.0]


async def test_a_preset_that_breaks_keeps_its_running_instances_fingerprint():
    before, after = preset("a"), replace(preset("a"), fingerprint="other", problem="no such option")
    async with watching(Table(before)) as (told, catalog):
        offer = catalog._offer(Reading(2, (after,))).after(told[0])

        assert offer.specs["a"].fingerprint == before.fingerprint
        assert offer.specs["a"].problem == "no such option"


async def test_an_engine_that_is_away_for_a_moment_unloads_nothing():
    running = preset("a", parallel=4, model_path="")
    away = replace(running, argv=(), parallel=1, fingerprint="none", problem="no llama-server")
    async with staged(running) as stage:
        lease = stage.ask("a")
        run = await lease.run()
        lease.release()
        for revision, spec in enumerate((away, away, running), start=2):
            stage.offers(spec, revision=revision)
            await stage.owner.caught_up()

        assert list(stage.owner.runs.values()) == [run]
        assert run.leaving is None
        assert stage.starts == ["a"]


async def test_who_waits_for_a_preset_that_is_renamed_gets_it_under_its_new_name():
    async with staged(preset("a"), preset("b"), models_max=1) as stage:
        holder = stage.ask("b")
        await holder.run()
        waiter = stage.ask("a")
        await stage.owner.caught_up()
        stage.offers(preset("new", aliases=("a",)), preset("b"), revision=2)
        await stage.owner.caught_up()
        holder.release()

        assert (await waiter.run()).spec.preset == "new"


async def test_whatever_keeps_it_from_reading_it_reads_again():
    table = Table(preset("a"))
    async with watching(table) as (told, _):
        table.broken = ValueError("not an option: '- a bullet'")
        table.change(preset("b"))
        while table.failed < 3:  # noqa: ASYNC110 - there is no event for a failed look
            await asyncio.sleep(0.001)
        table.broken = None
        await told.reaches(2)

        assert [offer.names() for offer in told] == [["a"], ["b"]]
