"""The client: it asks again when the scheduler was away, and lets go of what it no longer wants."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.client import Lease, SchedulerClient, call
from scheduler.core.planner import Planner
from scheduler.core.values import Config
from scheduler.protocol import LINE_LIMIT, Ping, Refused, Snapshot, Unload

from .serving import client_of, listening, serving, socket_path
from .standing_in import PATIENCE, preset, staged, steps, until


async def test_a_lease_is_granted_and_released():
    async with serving() as (stage, socket), client_of(socket) as client:
        lease = await client.acquire("a")
        assert (lease.preset, lease.instance) == ("a", 1)

        await lease.release()
        await client.ping()

        assert stage.leases() == 0


async def test_a_release_happens_once():
    async with serving(preset("a", parallel=2)) as (stage, socket), client_of(socket) as client:
        lease, other = await client.acquire("a"), await client.acquire("a")
        await lease.release()
        await lease.release()
        lease.abandon()
        await client.ping()

        assert stage.leases() == 1
        assert not other.lost.is_set()


async def test_an_abandoned_lease_counts_until_it_is_released():
    async with serving() as (stage, socket), client_of(socket) as client:
        lease = await client.acquire("a")
        lease.abandon()
        [instance] = (await client.snapshot()).instances
        assert (instance.leases, instance.abandoned) == (1, 1)

        await lease.release()
        await client.ping()

        assert stage.leases() == 0


async def test_the_holder_of_a_websocket_is_told_that_its_instance_drains():
    async with serving() as (stage, socket), client_of(socket) as client:
        lease = await client.acquire("a", kind="websocket")
        other = await client.acquire("b")
        assert not lease.draining.is_set()

        await client.unload("a")
        async with asyncio.timeout(PATIENCE):
            await lease.draining.wait()
        await lease.release()
        await until(lambda: [run.spec.preset for run in stage.owner.runs.values()] == ["b"])

        assert not other.draining.is_set()
        assert not stage.owner.waiting.waits(lease.lease)


async def test_it_is_told_also_when_the_drain_is_undone():
    planner = Planner(Config(models_max=1, max_wait_seconds=0.0))
    async with serving(planner=planner) as (stage, socket), client_of(socket) as client:
        lease = await client.acquire("a", kind="websocket")
        waiting = asyncio.create_task(client.acquire("b"))
        async with asyncio.timeout(PATIENCE):
            await lease.draining.wait()

        waiting.cancel()
        await until(lambda: not lease.draining.is_set())

        assert stage.leases() == 1


async def test_a_drain_in_the_moment_of_the_grant_is_not_missed():
    async with serving() as (stage, socket), client_of(socket) as client:
        asking = asyncio.create_task(client.acquire("a", kind="websocket"))
        await until(lambda: stage.leases() == 1)
        unloading = asyncio.create_task(client.unload("a"))

        lease = await asking
        await unloading
        async with asyncio.timeout(PATIENCE):
            await lease.draining.wait()


async def test_a_refusal_is_raised_with_its_code_and_its_wait():
    async with serving() as (_, socket), client_of(socket) as client:
        with pytest.raises(Refused) as refused:
            await client.acquire("nope")

        assert refused.value.code == "model_not_found"


@pytest.mark.parametrize("cancel_after", range(12))
async def test_a_call_cancelled_at_any_step_holds_no_slot(cancel_after):
    async with serving() as (stage, socket), client_of(socket) as client:
        await client.ping()
        asking = asyncio.create_task(client.acquire("a"))
        await steps(cancel_after)
        asking.cancel()
        [outcome] = await asyncio.gather(asking, return_exceptions=True)
        if isinstance(outcome, Lease):  # it came before the cancel
            await outcome.release()

        async with asyncio.timeout(PATIENCE):
            await (await client.acquire("a")).release()
            await client.ping()
        await until(lambda: stage.leases() == 0)


async def test_a_client_may_start_before_the_scheduler():
    with socket_path() as socket:
        async with client_of(socket) as client:
            asking = asyncio.create_task(client.acquire("a"))
            await steps(5)
            async with staged() as stage, listening(stage, socket):
                assert (await asking).preset == "a"


async def test_who_waits_is_asked_for_again_when_the_scheduler_is_back():
    with socket_path() as socket:
        async with client_of(socket) as client:
            async with staged(ready=False) as first, listening(first, socket):
                asking = asyncio.create_task(client.acquire("a"))
                await until(first.queue)
            assert not asking.done()

            async with staged() as second, listening(second, socket):
                assert (await asking).preset == "a"
                assert second.leases() == 1


async def test_who_is_asked_for_again_keeps_its_age():
    with socket_path() as socket:
        async with client_of(socket) as client, staged(ready=False) as stage:
            async with listening(stage, socket):
                asking = asyncio.create_task(client.acquire("a", age=100.0))
                await until(stage.queue)
            await until(lambda: not stage.queue())
            async with listening(stage, socket):
                await until(stage.queue)
                [entry] = stage.queue()

                assert stage.owner.clock() - entry.oldest >= 100.0
            asking.cancel()


async def test_leases_are_lost_with_their_connection():
    with socket_path() as socket:
        async with client_of(socket) as client, staged() as stage:
            async with listening(stage, socket):
                lease = await client.acquire("a")
                assert not lease.lost.is_set()
            await lease.lost.wait()

            assert await lease.release(died=True) is None
            lease.abandon()


async def test_without_a_scheduler_it_is_refused_after_the_reconnect_wait():
    with socket_path() as socket:
        async with client_of(socket, wait=0.1) as client:
            with pytest.raises(Refused) as refused:
                await client.acquire("a")

            assert refused.value.code == "scheduler_unavailable"
            assert refused.value.retry_after_seconds is not None


async def test_closing_the_client_refuses_who_waits():
    async with serving(ready=False) as (stage, socket):
        client = SchedulerClient(socket)
        await client.start()
        asking = asyncio.create_task(client.acquire("a"))
        await until(stage.queue)
        await client.close()

        with pytest.raises(Refused, match="scheduler does not answer"):
            await asking


async def test_loading_with_wait_returns_when_it_is_loaded():
    async with serving() as (stage, socket), client_of(socket) as client:
        assert await client.load("a", wait=True) == {"preset": "a", "instance": 1}
        assert stage.leases() == 0
        assert await client.unload("a") == {"instances": 1}
        await until(lambda: not stage.owner.runs)


async def test_a_reload_tells_the_revision():
    async with serving() as (_, socket), client_of(socket) as client:
        assert await client.reload(1) == {"revision": 1}


async def test_a_thousand_waiters_share_one_connection():
    async with serving(preset("a", parallel=1000)) as (stage, socket), client_of(socket) as client:
        leases = await asyncio.gather(*(client.acquire("a") for _ in range(1000)))
        assert stage.leases() == 1000

        await asyncio.gather(*(lease.release() for lease in leases))
        await client.ping()

        assert stage.leases() == 0


async def test_a_synchronous_call_gets_the_reply():
    async with serving() as (_, socket):
        assert await asyncio.to_thread(call, socket, Ping(id=1)) == {}
        snapshot = await asyncio.to_thread(call, socket, Snapshot(id=1))
        assert snapshot["models_max"] == 4


async def test_a_synchronous_call_raises_the_refusal():
    async with serving() as (_, socket):
        with pytest.raises(Refused, match="no model is called 'nope'"):
            await asyncio.to_thread(call, socket, Unload(id=1, preset="nope"))


def test_a_synchronous_call_without_a_scheduler_is_refused():
    with socket_path() as socket, pytest.raises(Refused) as refused:
        call(socket, Ping(id=1))

    assert refused.value.code == "scheduler_unavailable"


@pytest.mark.parametrize("name", ["n" * LINE_LIMIT, "lone \udc80 surrogate"])
async def test_what_the_scheduler_could_not_read_is_refused_before_it_is_sent(name):
    async with serving() as (_, socket), client_of(socket) as client:
        for ask in (client.acquire, client.load, client.unload):
            with pytest.raises(Refused) as refused:
                await ask(name)
            assert refused.value.code == "invalid_request"
        with pytest.raises(Refused):
            await asyncio.to_thread(call, socket, Unload(id=1, preset=name))

        assert (await client.acquire("a")).preset == "a"


async def test_a_line_that_was_not_understood_leaves_nobody_waiting():
    async with serving(ready=False) as (stage, socket), client_of(socket) as client:
        await client.ping()
        asking = asyncio.create_task(client.acquire("a"))
        await until(stage.queue)
        client._connection._tell_line(b"not a line")

        with pytest.raises(Refused) as refused:
            await asking
        assert refused.value.code == "invalid_request"
        await until(lambda: not stage.queue())
        await client.ping()
