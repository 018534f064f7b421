"""Real processes that stop answering: found, killed and replaced; and busy ones, which are left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket

import pytest

from models_registry.engine_path import llama_server
from models_registry.launch import LaunchSpec
from scheduler.runtime.record import Decided, Gone
from tests.support.tiny_model import tiny_model

from .running import Running, children, preset, running, until

OFTEN = {"health_every_seconds": 0.2, "health_tries": 3}


def stop(pid: str | int) -> None:
    os.kill(int(pid), signal.SIGSTOP)


def ends(gateway: Running) -> list[str]:
    return [entry.reason for entry in gateway.entries if isinstance(entry, Gone)]


async def test_a_child_that_hangs_is_killed_and_who_waits_gets_another_one():
    async with running([preset("a")], **OFTEN) as gateway:
        lease = await gateway.client.acquire("a")
        waiting = asyncio.ensure_future(gateway.client.acquire("a"))
        stop(children()[0])

        ended = await lease.release(died=True)
        other = await waiting

        assert (ended.by_itself, ended.reason, ended.signal) == (False, "hung", signal.SIGKILL)
        assert other.instance == 2
        assert ends(gateway) == ["hung"]
        assert (await gateway.snapshot()).failures == []
        why = [(e.kind, e.reason) for e in gateway.entries if isinstance(e, Decided)]
        assert ("kill", "hung") in why
    assert children() == []


async def test_a_child_that_hangs_while_nobody_asks_is_found_too():
    async with running([preset("a")], **OFTEN) as gateway:
        await (await gateway.client.acquire("a")).release()
        stop(children()[0])
        await until(gateway.nothing_runs, "it has been found")

        assert ends(gateway) == ["hung"]
        assert gateway.starts == ["a"]
    assert children() == []


async def test_a_sleeper_that_hangs_is_found_before_somebody_needs_it():
    async with running([preset("a", "--sleep-idle", "0.05")], **OFTEN) as gateway:
        await (await gateway.client.acquire("a")).release()

        async def asleep() -> bool:
            return [i.state for i in (await gateway.snapshot()).instances] == ["sleeping"]

        await until(asleep, "it sleeps")
        stop(children()[0])
        await until(gateway.nothing_runs, "it has been found")

        assert ends(gateway) == ["hung"]
    assert children() == []


async def test_one_that_hangs_when_it_should_exit_is_ended_by_the_stop_timeout():
    async with running([preset("a", "--ignore-exit")], **OFTEN) as gateway:
        await (await gateway.client.acquire("a")).release()
        stop(children()[0])
        await gateway.client.unload("a")
        await until(gateway.nothing_runs, "it has been killed")

        assert ends(gateway) == ["unloaded"]
    assert children() == []


async def test_a_child_that_stood_still_for_a_moment_only_goes_on():
    async with running([preset("a")], health_every_seconds=0.2, health_tries=30) as gateway:
        lease = await gateway.client.acquire("a")
        [pid] = children()
        stop(pid)
        await asyncio.sleep(1.0)
        os.kill(int(pid), signal.SIGCONT)
        await lease.release()

        assert (await gateway.client.acquire("a")).instance == lease.instance
    assert children() == []


def spec(model, *argv: str) -> LaunchSpec:
    words = ("--model", str(model), "--ctx-size", "2048", "--parallel", "1", *argv)
    return preset("a", argv=words, model_path=str(model), fingerprint="a")


def ask_for_ever(address: str) -> socket.socket:
    """A request whose answer does not end; it leaves when it is closed."""
    body = b'{"prompt": "Hello", "n_predict": 100000, "ignore_eos": true}'
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    head = b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    connection.sendall(head % len(body) + body)
    return connection


@pytest.mark.engine
@pytest.mark.slow
async def test_a_real_child_answers_while_it_has_all_the_requests_that_it_may_have(tmp_path):
    busy = spec(tiny_model(tmp_path), "--threads", "1")
    async with running([busy], program=llama_server(), oversubscribe=16.0, **OFTEN) as gateway:
        leases = await asyncio.gather(*(gateway.client.acquire("a") for _ in range(16)))
        with contextlib.ExitStack() as requests:
            for lease in leases:  # all in one moment: left to itself it would take five
                requests.enter_context(contextlib.closing(ask_for_ever(lease.address)))
            for _ in range(5):
                await asyncio.sleep(0.1)
                assert await gateway.service.engine.is_alive(leases[0].address)
            assert await gateway.service.engine.busy_slots(leases[0].address) == 1

        assert ends(gateway) == []
    assert children() == []


@pytest.mark.engine
@pytest.mark.slow
async def test_a_real_child_that_hangs_is_killed(tmp_path):
    async with running([spec(tiny_model(tmp_path))], program=llama_server(), **OFTEN) as gateway:
        await gateway.client.acquire("a")
        stop(children()[0])
        await until(gateway.nothing_runs, "it has been found")

        assert ends(gateway) == ["hung"]
    assert children() == []


@pytest.mark.engine
@pytest.mark.slow
async def test_asking_neither_wakes_a_real_sleeper_nor_keeps_it_awake(tmp_path):
    sleepy = spec(tiny_model(tmp_path), "--sleep-idle-seconds", "1")
    async with running([sleepy], program=llama_server(), health_every_seconds=0.1) as gateway:
        await (await gateway.client.acquire("a")).release()

        async def asleep() -> bool:
            return [i.state for i in (await gateway.snapshot()).instances] == ["sleeping"]

        await until(asleep, "it sleeps although it is asked")
        await asyncio.sleep(1.0)
        assert await asleep()
    assert children() == []
