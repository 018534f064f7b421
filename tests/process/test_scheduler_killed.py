"""The scheduler as a process: killed outright it leaves no child, and stopped nothing at all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler.client import SchedulerClient
from scheduler.run_folder import control_socket

from .running import PATIENCE, exists, is_alive, short_var, until

PROGRAM = Path(__file__).with_name("scheduler_program.py")


class Process:
    def __init__(self, process: asyncio.subprocess.Process, client: SchedulerClient) -> None:
        self.process = process
        self.client = client

    async def one_child(self) -> int:
        """The pid of its child, as soon as there is one."""
        found: list[int] = []

        async def there() -> bool:
            instances = (await self.client.snapshot()).instances
            found[:] = [i.pid for i in instances if i.pid is not None]
            return bool(found)

        await until(there, "a child was spawned")
        return found[0]


@contextlib.asynccontextmanager
async def scheduler(var: Path, *presets: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), str(var), *presets)
    client = SchedulerClient(control_socket(var), reconnect_wait_seconds=PATIENCE)
    await client.start()
    try:

        async def listening() -> bool:
            return exists(control_socket(var))

        await until(listening, "the scheduler listens")
        yield Process(process, client)
    finally:
        await client.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def gone(pid: int) -> None:
    async def dead() -> bool:
        return not is_alive(pid)

    await until(dead, f"child {pid} has gone")


async def test_a_scheduler_killed_outright_leaves_no_child():
    with short_var() as var:
        async with scheduler(var, "a:--ignore-exit") as running:
            await running.client.acquire("a")
            child = await running.one_child()

            running.process.kill()
            await running.process.wait()
            await gone(child)


async def test_a_scheduler_killed_while_a_child_loads_leaves_no_child():
    with short_var() as var:
        async with scheduler(var, "a:--load-seconds:600") as running:
            await running.client.load("a")
            child = await running.one_child()

            running.process.kill()
            await running.process.wait()
            await gone(child)


@pytest.mark.parametrize("asked_by", [signal.SIGTERM, signal.SIGINT])
async def test_a_scheduler_asked_to_stop_ends_its_children_and_removes_its_sockets(asked_by):
    with short_var() as var:
        async with scheduler(var, "a") as running:
            lease = await running.client.acquire("a")
            child = await running.one_child()

            running.process.send_signal(asked_by)

            assert await running.process.wait() == 0
            assert not is_alive(child)
            assert not exists(lease.address)
            assert not exists(control_socket(var))


async def test_a_second_signal_does_not_wait_for_the_children():
    with short_var() as var:
        async with scheduler(var, "a:--ignore-exit") as running:
            await running.client.acquire("a")
            child = await running.one_child()

            running.process.send_signal(signal.SIGTERM)
            running.process.send_signal(signal.SIGTERM)

            assert await running.process.wait() == 0
            assert not is_alive(child)


async def test_a_scheduler_after_a_killed_one_starts_clean():
    with short_var() as var:
        async with scheduler(var, "a") as first:
            lease = await first.client.acquire("a")
            first.process.kill()
            await first.process.wait()
            assert exists(lease.address)

            async with scheduler(var, "a") as second:
                again = await second.client.acquire("a")
                assert not exists(lease.address)
                assert exists(again.address)


async def test_a_second_scheduler_on_the_same_folder_refuses_with_a_sentence():
    with short_var() as var:
        async with scheduler(var, "a") as first:
            await first.client.acquire("a")
            second = await asyncio.create_subprocess_exec(
                sys.executable, str(PROGRAM), str(var), "a", stderr=asyncio.subprocess.PIPE
            )
            _, said = await second.communicate()

            assert second.returncode != 0
            assert f"another scheduler (pid {first.process.pid})" in said.decode()
            await first.client.ping()


async def test_a_frozen_child_is_no_reason_to_hang_at_the_end():
    with short_var() as var:
        async with scheduler(var, "a") as running:
            await running.client.acquire("a")
            child = await running.one_child()
            os.kill(child, signal.SIGSTOP)

            running.process.send_signal(signal.SIGTERM)

            assert await running.process.wait() == 0
            assert not is_alive(child)


async def test_who_waits_when_the_scheduler_is_killed_is_served_by_the_next_one():
    with short_var() as var:
        async with scheduler(var, "a:--load-seconds:600") as first:
            waiting = asyncio.create_task(first.client.acquire("a"))
            child = await first.one_child()
            first.process.kill()
            await first.process.wait()

            async with scheduler(var, "a"):
                lease = await waiting
                assert lease.preset == "a"
            await gone(child)
