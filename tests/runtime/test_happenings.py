"""What subscribers hear: each change once, the whole state of the preset, and how an end came."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.client import ConnectionLost
from scheduler.core.events import Ticked
from scheduler.protocol import Happened, Unload

from .serving import client_of, serving, wired
from .standing_in import Stage, preset, staged, until


class Heard(list[Happened]):
    """In their order, the first one apart; `activity` counts those that are about no preset."""

    activity = 0

    @classmethod
    async def on(cls, stage: Stage) -> Heard:
        heard = cls()
        stage.operations.subscribe(heard.hear, lambda leave: setattr(heard, "leave", leave))
        await stage.owner.caught_up()
        heard.first = heard.pop(0)
        return heard

    def hear(self, happened: Happened) -> None:
        if happened.activity:
            self.activity += 1
        else:
            self.append(happened)

    def states(self, name: str) -> list[Any]:
        """By change: the instances' states, or what stands for none of them."""
        return [
            [instance.state for instance in each.instances] or ("queued" if each.queued else "none")
            for each in self
            if each.preset == name
        ]


async def test_a_load_and_an_unload_are_told_from_queue_to_exit():
    async with staged() as stage:
        heard = await Heard.on(stage)

        asking = stage.ask("a")
        await asking.run()
        asking.release()
        stage.operations.unload(Unload(0, "a", False), lambda answer: None)
        await until(lambda: heard and heard[-1].ended)

        assert heard.states("a") == [["loading"], ["loaded"], ["stopping"], "none"]
        ended = heard[-1].ended
        assert (ended.by_itself, ended.reason, ended.exit_code) == (False, "unloaded", 0)
        assert [each.number for each in heard] == [1, 2, 3, 4]
        assert {each.life for each in [heard.first, *heard]} == {stage.owner.happenings.life}


async def test_a_crash_is_told_with_its_signal():
    async with staged() as stage:
        await stage.ask("a").run()
        heard = await Heard.on(stage)

        stage.children[0].end(-9)
        await until(lambda: heard)

        assert heard.states("a") == ["none"]
        assert (heard[0].ended.by_itself, heard[0].ended.signal) == (True, 9)


async def test_a_failed_load_is_told_with_its_failure():
    async with staged(ready=False) as stage:
        heard = await Heard.on(stage)
        asking = stage.ask("a")
        await until(lambda: stage.children)

        stage.children[0].end(1)
        await asking.refusal()
        await until(lambda: heard[-1].ended)

        assert heard.states("a") == [["loading"], "none"]
        assert heard[-1].failure.exit_code == 1


async def test_who_waits_for_room_is_queued_until_it_loads_or_leaves():
    async with staged(models_max=1) as stage:
        holding = stage.ask("a")
        await holding.run()
        heard = await Heard.on(stage)

        waiting = stage.ask("b")
        stage.ask("b")
        await until(lambda: heard.states("b") == ["queued"])
        holding.release()
        await waiting.run()

        assert heard.states("b") == ["queued", ["loading"], ["loaded"]]


async def test_a_waiter_that_leaves_is_told_within_a_heartbeat():
    async with staged(models_max=1) as stage:
        await stage.ask("a").run()
        heard = await Heard.on(stage)
        waiting = stage.ask("b")
        await until(lambda: heard.states("b") == ["queued"])

        waiting.cancel()
        await until(lambda: heard.states("b") == ["queued", "none"])


async def test_steps_of_a_load_are_told_seldom_but_the_last_one_always():
    now = 100.0
    async with staged(ready=False, clock=lambda: now) as stage:
        heard = await Heard.on(stage)
        stage.ask("a")
        await until(lambda: stage.children)
        for value in (0.0, 0.1, 0.2, 0.3, 1.0):
            stage.children[0].say("loading", {"value": value})
        await until(lambda: heard and heard[-1].instances[0].progress == 1.0)

        assert [each.instances[0].progress for each in heard] in ([None, 1.0], [None, 0.0, 1.0])


async def test_requests_for_what_is_loaded_are_not_told():
    async with staged() as stage:
        await stage.ask("a").run()
        heard = await Heard.on(stage)

        for _ in range(3):
            asking = stage.ask("a")
            await asyncio.sleep(0)
            asking.cancel()
        await stage.owner.caught_up()

        assert heard == []


async def test_the_registry_read_anew_is_told_with_what_is_gone():
    async with staged() as stage:
        heard = await Heard.on(stage)

        stage.offers(preset("b"), preset("c"), revision=7)
        await stage.owner.caught_up()

        assert (heard[-1].revision, heard[-1].gone) == (7, ["a"])


async def test_who_has_left_hears_nothing():
    async with staged() as stage:
        heard = await Heard.on(stage)
        heard.leave()

        await stage.ask("a").run()

        assert heard == []


async def test_leases_and_waiters_are_told_as_activity_once_a_second():
    now = [100.0]
    async with staged(clock=lambda: now[0]) as stage:
        first = stage.ask("a")
        await first.run()
        heard = await Heard.on(stage)

        waiting = [stage.ask("a") for _ in range(9)]
        await stage.owner.caught_up()
        assert heard.activity == 0  # within the second
        now[0] += 1.0
        stage.owner.handle(Ticked())
        assert heard.activity == 1
        now[0] += 1.0
        stage.owner.handle(Ticked())
        assert heard.activity == 1  # nothing has changed since
        waiting[0].cancel()
        await stage.owner.caught_up()
        now[0] += 1.0
        stage.owner.handle(Ticked())

        assert heard.activity == 2
        assert heard == []


async def test_over_the_socket_until_it_is_cancelled():
    async with serving() as (stage, socket), wired(socket) as wire:
        first = await wire.ask({"op": "subscribe", "id": 5})
        asking = stage.ask("a")
        told = [await wire.reply(), await wire.reply()]
        refused = await wire.ask({"op": "subscribe", "id": 5})
        assert (await wire.ask({"op": "cancel", "id": 6, "target": 5}))["id"] == 6
        asking.release()
        stage.children[0].end()
        await until(lambda: not stage.owner.runs)

        assert first["ok"]["number"] == 0
        assert [reply["id"] for reply in told] == [5, 5]
        assert [reply["ok"]["instances"][0]["state"] for reply in told] == ["loading", "loaded"]
        assert refused["error"]["code"] == "invalid_request"
        assert (await wire.ask({"op": "ping", "id": 7}))["id"] == 7


async def test_a_client_hears_it_and_learns_when_the_scheduler_is_gone():
    async with serving() as (stage, socket), client_of(socket) as client:
        heard: list[Happened] = []

        async def listen() -> None:
            async for happened in client.happenings():
                heard.append(happened)

        listening = asyncio.create_task(listen())
        await until(lambda: heard)
        await stage.ask("a").run()
        await until(lambda: len(heard) == 3)
        stage.owner.stop()
        await until(lambda: heard[-1].ended)
        await client.close()

        with pytest.raises(ConnectionLost):
            await listening
