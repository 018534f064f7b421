"""Presets that run elsewhere, as the scheduler's shell has them."""

from __future__ import annotations

from typing import Any

from models_registry.engines import EngineKind, EngineSetup
from models_registry.launch import LaunchSpec
from scheduler.core.planner import Planner
from scheduler.core.values import Config
from scheduler.ports import statuses_of
from scheduler.protocol import Fit, Happened, Remote, Unload
from scheduler.runtime.remote_run import RemoteRun

from .serving import client_of, serving, wired
from .standing_in import Asking, Stage, preset, staged, until


def far(name: str = "far", parallel: int = 2, url: str = "https://there", **fields: Any) -> Any:
    setup = EngineSetup(EngineKind.UPSTREAM, url=url, model="large-2", key="a" * 32)
    return preset(name, parallel, engine=setup, argv=(), fingerprint=url, **fields)


def refusing(*specs: LaunchSpec) -> Any:
    """A stage on which one failure is enough."""
    return staged(*specs, planner=Planner(Config(remote_broken_after=1)))


async def granted(asking: Asking) -> RemoteRun:
    answer = await asking.answer
    assert isinstance(answer, RemoteRun), answer
    return answer


async def failed(stage: Stage) -> None:
    asking = stage.ask("far")
    await granted(asking)
    stage.operations.leases.heard(asking.request, "nobody listens there")
    asking.release()
    await stage.owner.caught_up()


async def test_a_lease_says_where_to_go_and_starts_nothing():
    async with serving(far()) as (stage, socket), client_of(socket) as client:
        lease = await client.acquire("far")

        assert lease.remote == Remote("https://there", "a" * 32)
        assert (lease.model, lease.address) == ("large-2", "")
        assert stage.starts == []
        lease.heard()
        await lease.release(read=3, answered=4)
        await until(lambda: not stage.owner.planner.remotes["far"].leases)


async def test_it_answers_also_where_nothing_is_loaded_on_demand():
    async with staged(far()) as stage:
        await granted(stage.ask("far", autoload=False))


async def test_one_that_cannot_be_taken_is_refused_with_its_problem():
    async with staged(far(problem="its key is gone")) as stage:
        refusal = await stage.ask("far").refusal()

    assert (refusal.code, "its key is gone" in refusal.message) == ("preset_invalid", True)


async def test_an_edit_counts_for_the_next_lease():
    async with staged(far()) as stage:
        first = await granted(stage.ask("far"))
        stage.offers(far(url="https://elsewhere"), revision=2)
        second = await granted(stage.ask("far"))

    assert first.remote.url == "https://there"
    assert second.remote.url == "https://elsewhere"


async def test_a_connection_that_breaks_gives_its_leases_back_at_once():
    async with serving(far(parallel=1)) as (stage, socket):
        async with wired(socket) as wire:
            assert "ok" in await wire.ask({"op": "acquire", "id": 1, "preset": "far"})
        await granted(stage.ask("far"))

        assert stage.engine.asked == 0


async def test_who_cannot_be_served_yet_is_told_why():
    async with staged(far(parallel=1)) as stage:
        holder = stage.ask("far", request="one")
        await granted(holder)
        stage.ask("far", request="two")
        told: list[Any] = []
        stage.operations.explain("two", told.append)
        stage.operations.explain("one", told.append)
        await stage.owner.caught_up()

    assert told[0].why.startswith("its model runs elsewhere and answers 1 request, as many as it")
    assert (told[0].holdup, told[0].turn) == ("slot", 0)
    assert told[1].why.startswith("the remote server of 'far' has been answering it for")


async def test_there_is_nothing_to_load_to_unload_or_to_fit():
    told: list[Any] = []
    async with staged(far(load_on_startup=True)) as stage:
        stage.operations.load("far", told.append)
        stage.operations.unload(Unload(0, "far", True), told.append)
        stage.operations.fit(Fit(1, "far"), told.append)
        await stage.owner.caught_up()

    load, unload, fit = told
    assert (load.code, unload.code) == ("invalid_request", "invalid_request")
    assert "needs no loading" in load.message
    assert "remote server" in fit.now.problem


async def test_one_that_fails_is_left_alone_and_everybody_hears_it():
    heard: list[Happened] = []
    async with refusing(far()) as stage:
        stage.operations.subscribe(heard.append, lambda leave: None)
        await stage.owner.caught_up()
        await failed(stage)
        refusal = await stage.ask("far").refusal()
        told: list[Any] = []
        stage.operations.snapshot(told.append)
        await stage.owner.caught_up()

    assert refusal.code == "upstream_unavailable"
    assert refusal.retry_after_seconds
    [remote], [failure] = told[0].remotes, told[0].failures
    assert (remote.preset, remote.leases, remote.parallel) == ("far", 0, 2)
    assert (failure.reason, failure.words) == ("upstream_unavailable", "nobody listens there")
    status = statuses_of(told[0])["far"]
    assert (status.state, status.failure) == (
        "remote",
        "upstream_unavailable: nobody listens there",
    )
    [happened] = [each for each in heard if each.preset]
    assert happened.remote
    assert happened.failure is not None


async def test_requests_that_go_well_are_no_news():
    heard: list[Happened] = []
    async with staged(far()) as stage:
        stage.operations.subscribe(heard.append, lambda leave: None)
        for _ in range(3):
            asking = stage.ask("far")
            await granted(asking)
            stage.operations.leases.heard(asking.request, "")
            asking.release()
        await stage.owner.caught_up()

    assert [each for each in heard if each.preset] == []


async def test_what_was_left_alone_is_told_to_work_again(monkeypatch):
    heard: list[Happened] = []
    async with refusing(far()) as stage:
        await failed(stage)
        stage.operations.subscribe(heard.append, lambda leave: None)
        failure = stage.owner.planner.failures["far"]
        monkeypatch.setattr(stage.owner, "clock", lambda: failure.until + 1)
        asking = stage.ask("far")
        await granted(asking)
        stage.operations.leases.heard(asking.request, "")
        await stage.owner.caught_up()

    assert [(each.remote, each.failure) for each in heard if each.preset] == [(True, None)]
