"""Children as real processes: started on demand, ended whatever they do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler.protocol import Refused

from .running import Running, children, exists, is_alive, preset, running, until


async def test_a_request_gets_a_lease_on_a_freshly_started_child():
    async with running() as gateway:
        lease = await gateway.client.acquire("small")

        assert len(children()) == 1
        assert exists(lease.address)
    assert children() == []


async def test_a_larger_number_of_requests_shares_one_child():
    async with running([preset("small", parallel=4)]) as gateway:
        leases = await asyncio.gather(*(gateway.client.acquire("small") for _ in range(4)))

        assert {lease.instance for lease in leases} == {1}
        assert gateway.starts == ["small"]
    assert children() == []


async def test_leaving_leaves_no_process_and_no_socket():
    async with running() as gateway:
        lease = await gateway.client.acquire("small")
        address, control = lease.address, gateway.config.control_socket
        assert exists(control)

    assert children() == []
    assert not exists(address)
    assert not exists(control)


async def test_a_second_preset_takes_the_place_of_an_idle_one():
    async with running([preset("a"), preset("b")], models_max=1) as gateway:
        first = await gateway.client.acquire("a")
        await first.release()
        second = await gateway.client.acquire("b")

        assert second.instance != first.instance
        assert len(children()) == 1
        assert not exists(first.address)
    assert children() == []


@pytest.mark.parametrize("flags", [["--ignore-exit"], ["--ignore-exit", "--ignore-sigterm"]])
async def test_a_child_that_does_not_exit_when_asked_is_killed_in_time(flags):
    async with running([preset("a", *flags), preset("b")], models_max=1) as gateway:
        await (await gateway.client.acquire("a")).release()

        await gateway.client.acquire("b")

        assert len(children()) == 1
    assert children() == []


async def test_stopping_the_scheduler_ends_a_child_that_ignores_everything():
    async with running([preset("a", "--ignore-exit", "--ignore-sigterm")]) as gateway:
        await gateway.client.acquire("a")
    assert children() == []


async def test_stopping_the_scheduler_ends_a_child_that_loads():
    async with running([preset("a", "--load-seconds", "600")]) as gateway:
        await gateway.client.load("a")
        assert len(children()) == 1
    assert children() == []


async def test_a_grandchild_that_holds_the_pipes_does_not_outlive_the_child():
    async with running([preset("a", "--grandchild")]) as gateway:
        lease = await gateway.client.acquire("a")
        [grandchild] = children(of=children()[0])
        await lease.release()
        await gateway.client.unload("a")
        await until(gateway.nothing_runs, "the child has gone")

        async def dead() -> bool:
            return not is_alive(int(grandchild))

        await until(dead, "the grandchild has gone")
    assert children() == []


async def test_a_missing_program_refuses_the_request_and_not_the_scheduler():
    missing = Path("/nonexistent/llama-server")
    async with running(program=missing) as gateway:
        with pytest.raises(Refused, match="nonexistent") as refusal:
            await gateway.client.acquire("small")

        assert refusal.value.code == "model_load_failed"
        await gateway.client.ping()
    assert children() == []


async def test_a_registry_that_cannot_be_read_is_told_and_read_again():
    unreadable = ValueError("not an option: '- a bullet'")
    specs = [preset("small", load_on_startup=True)]
    async with running(specs, unreadable=unreadable) as gateway:
        with pytest.raises(Refused) as refused:
            await gateway.client.acquire("small")
        with pytest.raises(Refused, match="cannot be read yet"):
            await gateway.client.unload("small")
        gateway.registry.unreadable = None

        async def is_loaded() -> bool:
            return [i.state for i in (await gateway.snapshot()).instances] == ["loaded"]

        await until(is_loaded, "what loads on start-up is loaded once it is known")
        assert refused.value.code == "scheduler_unavailable"
        assert gateway.starts == ["small"]


async def test_what_loads_on_startup_is_not_loaded_by_a_reload():
    async with running([preset("small", load_on_startup=True)]) as gateway:
        await until(lambda: _has_started(gateway, "small"), "it is started")
        await gateway.client.unload("small", force=True)
        await until(gateway.nothing_runs, "it has gone")
        gateway.registry.specs.append(preset("later", load_on_startup=True))
        gateway.registry.number += 1

        await gateway.client.reload(gateway.registry.number)
        await gateway.client.acquire("later")

        assert gateway.starts == ["small", "later"]


async def _has_started(gateway: Running, name: str) -> bool:
    return gateway.starts == [name]
