"""Callers that are killed: their slots come back when the child says that they are idle."""

from __future__ import annotations

import asyncio
import sys

from .running import PATIENCE, children, preset, running, until

HOLD_FOR_EVER = """
import asyncio, pathlib, sys, aiohttp
from scheduler.client import SchedulerClient

async def main():
    client = SchedulerClient(pathlib.Path(sys.argv[1]))
    await client.start()
    leases = [await client.acquire(sys.argv[2]) for _ in range(int(sys.argv[3]))]
    if len(sys.argv) > 4:
        session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(leases[0].address))
        answer = asyncio.create_task(session.post(
            "http://x/v1/chat/completions", json={"max_tokens": int(sys.argv[4])}))
        await asyncio.sleep(0)
    print("held", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def holder(gateway, preset_name: str, leases: int, *tokens: str):
    caller = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD_FOR_EVER, str(gateway.config.control_socket),
        preset_name, str(leases), *tokens, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert caller.stdout is not None
    assert await caller.stdout.readline() == b"held\n"
    return caller


async def killed(caller) -> None:
    caller.kill()
    await caller.wait()


async def test_a_caller_killed_outright_gives_its_slots_back():
    async with running([preset("a", parallel=2)]) as gateway:
        caller = await holder(gateway, "a", 2)
        waiting = asyncio.create_task(gateway.client.acquire("a"))

        await killed(caller)

        assert (await waiting).instance == 1
    assert children() == []


async def test_a_killed_callers_lease_counts_until_its_slot_is_idle():
    async with running([preset("a", "--slow-tokens", "0.05")]) as gateway:
        caller = await holder(gateway, "a", 1, "60")

        async def works() -> bool:
            run = gateway.service.owner.runs[1]
            return bool(await gateway.service.engine.busy_slots(run.address))

        await until(works, "the child works on the answer")
        await killed(caller)

        async def abandoned() -> bool:
            [instance] = (await gateway.snapshot()).instances
            return (instance.leases, instance.abandoned) == (1, 1)

        await until(abandoned, "the lease is abandoned, and counted")
        assert await works()

        async def over() -> bool:
            [instance] = (await gateway.snapshot()).instances
            return instance.leases == 0

        await until(over, "the lease has ended with the answer")
        assert not await works()
    assert children() == []


async def test_a_killed_callers_waiters_leave_the_queue():
    async with running([preset("a")]) as gateway:
        lease = await gateway.client.acquire("a")
        caller = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLD_FOR_EVER, str(gateway.config.control_socket), "a", "1"
        )

        async def queued() -> bool:
            return [entry.waiters for entry in (await gateway.snapshot()).queue] == [1]

        await until(queued, "it waits")
        await killed(caller)

        async def empty() -> bool:
            return (await gateway.snapshot()).queue == []

        await until(empty, "the queue is empty")
        await lease.release()
    assert children() == []


async def test_other_callers_leases_are_untouched():
    async with running([preset("a", parallel=2)]) as gateway:
        mine = await gateway.client.acquire("a")
        caller = await holder(gateway, "a", 1)
        await killed(caller)

        async def one_left() -> bool:
            [instance] = (await gateway.snapshot()).instances
            return (instance.leases, instance.abandoned) == (1, 0)

        await until(one_left, "only the other's lease has ended")
        assert not mine.lost.is_set()
        async with asyncio.timeout(PATIENCE):
            await mine.release()
    assert children() == []
