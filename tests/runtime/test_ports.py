"""The scheduler as the registry's pages see it."""

from __future__ import annotations

import asyncio

import pytest

from models_registry.ports import SchedulerRefused, SchedulerUnavailable, scheduler
from scheduler.ports import ControlSocketScheduler
from scheduler.protocol import Refused

from .serving import client_of, serving, socket_path
from .standing_in import preset, until


async def test_statuses_tell_what_runs_and_who_waits():
    specs = (preset("a"), preset("b"))
    async with serving(*specs, models_max=1) as (stage, socket), client_of(socket) as client:
        lease = await client.acquire("a")
        waiting = asyncio.create_task(client.acquire("b"))
        await until(stage.queue)
        statuses = await asyncio.to_thread(ControlSocketScheduler(socket).statuses)

        assert (statuses["a"].state, statuses["a"].leases) == ("loaded", 1)
        assert (statuses["b"].state, statuses["b"].waiters) == ("unloaded", 1)
        assert statuses["b"].holdup == "all that could make way are answering"
        await lease.release()
        await waiting


async def test_a_failed_load_is_told_with_its_words():
    async with serving(ready=False) as (stage, socket), client_of(socket) as client:
        asking = asyncio.create_task(client.acquire("a"))
        await until(lambda: stage.children)
        stage.children[0].log("0.00.000.001 E no such tensor")
        stage.children[0].end(1)
        with pytest.raises(Refused):
            await asking
        statuses = await asyncio.to_thread(ControlSocketScheduler(socket).statuses)

        assert statuses["a"].state == "unloaded"
        assert statuses["a"].failure == "failed_to_load: no such tensor"


@pytest.mark.django_db(transaction=True)
async def test_loading_and_unloading_reach_the_scheduler():
    async with serving() as (stage, socket):
        registry_side = ControlSocketScheduler(socket)
        await asyncio.to_thread(registry_side.load, "a")
        await until(lambda: stage.owner.runs)
        await asyncio.to_thread(registry_side.unload, "a", force=True)
        await until(lambda: not stage.owner.runs)


async def test_a_refusal_is_for_people():
    async with serving() as (_, socket):
        with pytest.raises(SchedulerRefused, match="no model is called 'nope'"):
            await asyncio.to_thread(ControlSocketScheduler(socket).load, "nope")


def test_without_a_scheduler_it_says_so():
    with socket_path() as socket, pytest.raises(SchedulerUnavailable, match="does not answer"):
        ControlSocketScheduler(socket).reload(1)


def test_the_registry_has_been_given_it():
    assert isinstance(scheduler(), ControlSocketScheduler)
