"""Conversations in the scheduler: whose stream is where, and what ends it."""

from __future__ import annotations

import scheduler.runtime.conversations as conversations
from models_registry.engines import EngineKind, EngineSetup
from scheduler.protocol import Streams, StreamState

from .conversing import ask, begun, key, state, stop, told, unread, until_lost
from .standing_in import preset, staged, until

# Where it is ------------------------------------------------------------------------------------


async def test_a_conversation_is_told_from_its_arrival_to_the_end_of_its_time(monkeypatch):
    monkeypatch.setattr(conversations, "LASTS_SECONDS", 0.05)
    async with staged(preset("a"), ready=False) as stage:
        asking = ask(stage)
        assert await state(stage) == "waiting"
        await until(lambda: stage.children)
        stage.children[0].say("ready")
        run = await asking.run()
        now = await told(stage)
        assert isinstance(now, StreamState)
        assert (now.state, now.address) == ("generating", str(run.address))
        assert now.stream == key(stage, asking)
        assert now.began
        asking.release()
        after = await told(stage)
        assert isinstance(after, StreamState)
        assert (after.state, after.stream) == ("ended", now.stream)
        assert after.ended >= after.began
        await until_lost(stage)


async def test_another_owners_id_is_another_conversation():
    async with staged(preset("a", parallel=2)) as stage:
        mine = await begun(stage)
        theirs = await begun(stage, owner="you")
        its = key(stage, theirs)
        assert key(stage, mine) != its
        await stop(stage, owner="you")

        assert await state(stage) == "generating"
        assert await state(stage, owner="you") == "conversation_lost"
        assert await state(stage, owner="nobody") == "conversation_lost"
        assert set(stage.streams.stopped) == {its}
        mine.release()
        theirs.release()


async def test_a_request_without_an_id_is_none():
    async with staged(preset("a")) as stage:
        asking = stage.ask("a")
        await asking.run()

        assert key(stage, asking) == ""


async def test_an_engine_that_keeps_no_streams_serves_it_as_any_request():
    other = preset("a", engine=EngineSetup(kind=EngineKind.COMMAND, command_line="serve"))
    async with staged(other) as stage:
        asking = await begun(stage)

        assert key(stage, asking) == ""
        assert await state(stage) == "conversation_lost"
        asking.release()


async def test_lookups_find_the_id_and_what_stands_before_its_colons():
    async with staged(preset("a", parallel=4)) as stage:
        for id in ("x", "x::a", "x::a::b", "xy"):
            await begun(stage, id=id)
        found: list[set[str]] = []
        for ids in (["x"], ["x::a"], ["y", "xy"], ["x:"]):
            stage.operations.conversing.streams(
                Streams(1, ids, "me"), lambda s: found.append({e.conversation for e in s.streams})
            )
        await stage.owner.caught_up()

        assert found == [{"x", "x::a", "x::a::b"}, {"x::a", "x::a::b"}, {"xy"}, set()]


# What ends it -----------------------------------------------------------------------------------


async def test_a_stop_refuses_who_waits():
    async with staged(preset("a"), ready=False) as stage:
        asking = ask(stage)
        await stop(stage)
        refusal = await asking.refusal()

        assert refusal.code == "request_cancelled"
        assert refusal.message == "request cancelled by a stop while the model was loading"
        assert await state(stage) == "conversation_lost"
        assert not stage.queue()


async def test_a_stop_is_said_to_the_child_until_the_lease_has_ended():
    async with staged(preset("a")) as stage:
        asking = await begun(stage)
        its = key(stage, asking)
        await stop(stage)
        assert await state(stage) == "conversation_lost"
        await until(lambda: len(stage.streams.stopped) > 1)
        asking.release()
        await stage.owner.caught_up()
        await until(lambda: not stage.leases())

        assert set(stage.streams.stopped) == {its}


async def test_a_stop_of_what_has_ended_lets_the_child_forget_it():
    async with staged(preset("a")) as stage:
        asking = await begun(stage)
        its = key(stage, asking)
        asking.release()
        await stop(stage)

        assert stage.streams.stopped == [its]
        assert await state(stage) == "conversation_lost"


async def test_a_newer_request_of_the_same_id_replaces_one_that_waits():
    async with staged(preset("a"), preset("b"), ready=False) as stage:
        older = ask(stage)
        newer = ask(stage, "b")

        assert (await older.refusal()).code == "request_cancelled"
        assert await state(stage) == "waiting"
        newer.cancel()
        assert await state(stage) == "conversation_lost"


async def test_a_newer_request_stops_the_older_generation_wherever_it_is():
    async with staged(preset("a"), preset("b")) as stage:
        older = await begun(stage)
        its = key(stage, older)
        newer = await begun(stage, "b")
        await until(lambda: stage.streams.stopped)
        older.release(unread=True)
        now = await told(stage)

        assert isinstance(now, StreamState)
        assert now.stream == key(stage, newer) != its
        assert set(stage.streams.stopped) == {its}


async def test_who_leaves_takes_his_conversation_with_him():
    async with staged(preset("a"), ready=False) as stage:
        asking = ask(stage)
        asking.cancel()

        assert await state(stage) == "conversation_lost"


async def test_a_request_whose_child_died_is_waited_for_and_comes_again():
    async with staged(preset("a")) as stage:
        asking = await begun(stage, request="r1")
        stage.children[0].end(1)
        asking.release(died=True)
        assert await state(stage) == "waiting"
        again = await begun(stage, request="r1", age=1.0)

        assert await state(stage) == "generating"
        assert stage.streams.stopped == []
        again.release()


async def test_a_stop_between_two_tries_holds_for_the_second():
    async with staged(preset("a")) as stage:
        asking = await begun(stage, request="r1")
        stage.children[0].end(1)
        asking.release(died=True)
        await stop(stage)
        assert await state(stage) == "conversation_lost"

        assert (await ask(stage, request="r1", age=1.0).refusal()).code == "request_cancelled"


async def test_an_older_request_that_asks_again_does_not_replace_a_newer_one():
    async with staged(preset("a", parallel=2)) as stage:
        newer = await begun(stage, request="r2")
        older = ask(stage, request="r1", age=60.0)

        assert (await older.refusal()).code == "request_cancelled"
        assert await state(stage) == "generating"
        newer.release()


async def test_one_whose_child_died_and_that_does_not_come_again_is_lost(monkeypatch):
    monkeypatch.setattr(conversations, "AGAIN_SECONDS", 0.02)
    async with staged(preset("a")) as stage:
        await begun(stage)
        stage.children[0].end(1)
        await until(lambda: not stage.owner.runs)
        await until_lost(stage)


async def test_the_oldest_streams_are_forgotten_and_their_memory_given_back(monkeypatch):
    monkeypatch.setattr(conversations, "MOST_ENDED_OF_OWNER", 2)
    async with staged(preset("a", parallel=4)) as stage:
        keys = []
        for id in "wxyz":
            asking = await begun(stage, id=id)
            keys.append(key(stage, asking))
            asking.release()
        await until(lambda: len(stage.streams.stopped) == 2)

        assert stage.streams.stopped == keys[:2]
        assert [await state(stage, id) for id in "wxyz"] == [
            *("conversation_lost", "conversation_lost"),
            *("ended", "ended"),
        ]


# A web process that dies ------------------------------------------------------------------------


async def test_a_web_process_that_dies_takes_its_waiters_with_it():
    async with staged(preset("a"), ready=False) as stage:
        asking = ask(stage)
        asking.desert()

        assert await state(stage) == "conversation_lost"
        assert not stage.queue()


async def test_a_lease_outlives_its_web_process_until_the_child_has_written_all(monkeypatch):
    monkeypatch.setattr(conversations, "LOOK_EVERY_SECONDS", 0.01)
    async with staged(preset("a")) as stage:
        asking = await begun(stage)
        its = key(stage, asking)
        stage.streams.write(its, b"half", done=False)
        asking.desert()
        await until(lambda: stage.streams.looks > 1)
        assert stage.leases() == 1
        assert not stage.owner.planner.instances[1].abandoned
        assert await state(stage) == "generating"

        stage.streams.write(its, b"the whole", done=True)
        await until(lambda: not stage.leases())
        assert await state(stage) == "ended"
        assert stage.owner.planner.instances[1].holds_unread


async def test_a_stream_that_is_written_at_the_shutdown_is_ended_before_the_child_is():
    async with staged(preset("a")) as stage:
        await unread(stage, id="read-by-nobody-any-more")
        its = key(stage, await begun(stage))

    assert stage.streams.stopped == [its]


async def test_a_child_that_does_not_say_counts_as_working_and_one_that_never_knew_as_done(
    monkeypatch,
):
    monkeypatch.setattr(conversations, "LOOK_EVERY_SECONDS", 0.01)
    async with staged(preset("a")) as stage:
        asking = await begun(stage)
        stage.streams.known = None
        asking.desert()
        await until(lambda: stage.streams.looks > 2 * conversations.UNKNOWN_LOOKS)
        assert stage.leases() == 1

        stage.streams.known = {}
        await until(lambda: not stage.leases())
        assert await state(stage) == "conversation_lost"


async def test_a_stop_ends_what_outlived_its_web_process(monkeypatch):
    monkeypatch.setattr(conversations, "LOOK_EVERY_SECONDS", 0.01)
    async with staged(preset("a")) as stage:
        asking = await begun(stage)
        its = key(stage, asking)
        stage.streams.write(its, b"half", done=False)
        asking.desert()
        await stop(stage)
        assert stage.streams.known is not None
        del stage.streams.known[its]

        await until(lambda: not stage.leases())
        assert await state(stage) == "conversation_lost"


async def test_a_detached_waiter_has_nobody_drained():
    async with staged(preset("a"), preset("b"), models_max=1) as stage:
        busy = stage.ask("a")
        await busy.run()
        waiting = ask(stage, "b")
        stage.operations.conversing.detach(waiting.request)
        await stage.owner.caught_up()
        [entry] = stage.queue()
        assert entry.holdup == "detached"
        busy.release()

        assert (await waiting.run()).spec.preset == "b"
