"""Children that die, each in its own way: who waits is told how, and nobody waits for ever."""

from __future__ import annotations

import os
import signal

import pytest

from scheduler.protocol import Refused
from scheduler.run_logs import runs_of

from .running import children, preset, running, until


async def refusal_of(gateway, name: str) -> Refused:
    with pytest.raises(Refused) as refused:
        await gateway.client.acquire(name)
    return refused.value


async def test_a_child_that_exits_while_loading_is_told_with_its_exit_code_and_last_words():
    async with running([preset("a", "--exit-code", "3")]) as gateway:
        refusal = await refusal_of(gateway, "a")

        assert refusal.code == "model_load_failed"
        assert "exit code 3" in refusal.message
        assert "invalid magic characters" in refusal.message
    assert children() == []


async def test_a_child_that_is_killed_while_loading_is_told_with_the_signal():
    async with running([preset("a", "--die-while-loading")]) as gateway:
        refusal = await refusal_of(gateway, "a")

        assert refusal.code == "model_load_failed"
        assert "SIGKILL" in refusal.message
    assert children() == []


async def test_a_preset_that_failed_backs_off_and_shows_why():
    async with running([preset("a", "--exit-code", "3")]) as gateway:
        await refusal_of(gateway, "a")
        refusal = await refusal_of(gateway, "a")
        [failure] = (await gateway.snapshot()).failures

        assert refusal.code == "model_backing_off"
        assert refusal.retry_after_seconds > 0
        assert (failure.preset, failure.exit_code) == ("a", 3)
        assert "invalid magic characters" in failure.words
        assert gateway.starts == ["a"]
    assert children() == []


async def test_a_broken_preset_evicts_nobody_twice():
    specs = [preset("good"), preset("bad", "--exit-code", "1")]
    async with running(specs, models_max=1) as gateway:
        await (await gateway.client.acquire("good")).release()
        await refusal_of(gateway, "bad")
        await (await gateway.client.acquire("good")).release()
        await refusal_of(gateway, "bad")

        assert gateway.starts == ["good", "bad", "good"]
    assert children() == []


async def test_a_load_that_runs_out_of_memory_is_tried_three_times():
    async with running([preset("a", "--oom")]) as gateway:
        refusal = await refusal_of(gateway, "a")

        assert refusal.code == "out_of_memory"
        assert "insufficient memory" in refusal.message
        assert gateway.starts == ["a", "a", "a"]
    assert children() == []


async def test_the_holder_of_a_lease_learns_how_the_child_died():
    async with running() as gateway:
        lease = await gateway.client.acquire("small")
        [pid] = children()
        os.kill(int(pid), signal.SIGSEGV)

        ended = await lease.release(died=True)

        assert ended.by_itself
        assert ended.signal == signal.SIGSEGV
        assert ended.reason == "crashed"
    assert children() == []


async def test_after_a_crash_the_next_request_gets_a_new_child():
    async with running() as gateway:
        lease = await gateway.client.acquire("small")
        os.kill(int(children()[0]), signal.SIGKILL)
        await lease.release(died=True)

        assert (await gateway.client.acquire("small")).instance != lease.instance
    assert children() == []


async def test_a_release_of_a_child_that_lives_tells_no_end():
    async with running() as gateway:
        lease = await gateway.client.acquire("small")

        assert await lease.release(died=True) is None
    assert children() == []


async def test_a_child_that_we_stopped_has_not_died_by_itself():
    async with running([preset("a", "--ignore-exit")]) as gateway:
        lease = await gateway.client.acquire("a")
        await gateway.client.unload("a", force=True)

        ended = await lease.release(died=True)

        assert not ended.by_itself
        assert ended.reason == "unloaded"
    assert children() == []


async def test_a_child_that_crashes_when_idle_is_noticed():
    async with running([preset("a", "--crash-after", "0.1")]) as gateway:
        await (await gateway.client.acquire("a")).release()
        await until(gateway.nothing_runs, "the crash has been seen")
    assert children() == []


@pytest.mark.parametrize(
    "oddity", ["--long-line", "--endless-line", "--print-garbage", "--chatter"]
)
async def test_what_a_child_prints_does_not_end_its_supervision(oddity):
    async with running([preset("a", oddity)]) as gateway:
        await (await gateway.client.acquire("a")).release()
        await gateway.client.unload("a")
        await until(gateway.nothing_runs, "it has ended")
    assert children() == []


async def test_a_childs_log_is_kept_in_a_file_of_its_run():
    async with running([preset("a", "--exit-code", "3")]) as gateway:
        await refusal_of(gateway, "a")

        [run] = runs_of(gateway.config.log_folder, "a")
        log = run.path
        assert b"invalid magic characters" in log.read_bytes()
        assert log.stat().st_mode & 0o077 == 0
    assert children() == []


async def test_a_sleeper_is_woken_by_the_next_request():
    async with running([preset("a", "--sleep-idle", "0.05")]) as gateway:
        await (await gateway.client.acquire("a")).release()

        async def asleep() -> bool:
            return [i.state for i in (await gateway.snapshot()).instances] == ["sleeping"]

        await until(asleep, "it sleeps")
        lease = await gateway.client.acquire("a")

        assert lease.instance == 1
        assert gateway.starts == ["a"]
    assert children() == []
