"""What a scheduler with real children wrote down is decided again, step by step, the same."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from scheduler.core.decisions import Decision, Grant
from scheduler.core.events import Event
from scheduler.core.planner import Planner
from scheduler.protocol import Refused
from scheduler.runtime.event_log import Step, read_event_log
from scheduler.runtime.replay import replay

from .running import children, preset, running, short_var, until
from .test_scheduler_killed import gone, scheduler


def parts(var: Path) -> list[Path]:
    return sorted((var / "logs").glob("events-*.jsonl"))


async def test_a_life_with_evictions_crashes_hangs_and_failures_is_replayed():
    specs = [
        *(preset("a"), preset("b", parallel=2), preset("sleepy", "--sleep-idle", "0.05")),
        preset("bad", "--exit-code", "3"),
    ]
    with short_var() as var:
        async with running(
            specs, var=var, models_max=2, event_log=True, health_every_seconds=0.1
        ) as gateway:
            client = gateway.client
            for name in ("a", "b", "sleepy", "a", "sleepy"):
                await (await client.acquire(name)).release(read=5, cached=0, answered=7)
            with pytest.raises(Refused):
                await client.acquire("bad")
            lease = await client.acquire("b")
            os.kill(pid_of(await gateway.snapshot(), "b"), signal.SIGSEGV)
            await lease.release(died=True)
            lease = await client.acquire("b")
            os.kill(pid_of(await gateway.snapshot(), "b"), signal.SIGSTOP)
            await lease.release(died=True)
            leaver = asyncio.ensure_future(client.acquire("a"))
            await client.ping()
            leaver.cancel()
            await client.unload("b")
        [part] = parts(var)
        done = replay(part)
        asked = replay(part, make_planner=Asked)

    assert done.difference is None
    assert asked.difference is None
    assert done.events["Silent"] == 1
    assert done.decisions["Kill hung"] == 1
    assert done.decisions["AskExit evicted"] >= 1
    assert done.decisions["Reject model_load_failed"] == 1
    assert len(done.waits) >= 7
    assert children() == []


class Asked(Planner):
    """Everything that may be read of it is read before each step: that changes nothing."""

    def handle(self, event: Event, now: float) -> list[Decision]:
        for entry in self.entries(now):
            self.retry_after(entry.preset, now)
            for waiter in self.waiters(entry.preset, now, offset=0, limit=9)[1]:
                self.explain(waiter.request, now)
        return super().handle(event, now)


def pid_of(snapshot, name: str) -> int:
    [pid] = [i.pid for i in snapshot.instances if i.preset == name and i.state == "loaded"]
    return pid


async def test_a_scheduler_that_was_killed_has_written_what_it_knew_a_moment_before():
    with short_var() as var:
        async with scheduler(var, "a") as process:
            await process.client.acquire("a")
            child = await process.one_child()

            async def written() -> bool:
                steps = [s for s in read_event_log(parts(var)[0]) if isinstance(s, Step)]
                return any(isinstance(d, Grant) for step in steps for d in step.decisions)

            await until(written, "the grant is written down")
            process.process.kill()
            await process.process.wait()
            await gone(child)
        done = replay(parts(var)[0])

    assert done.difference is None
    assert len(done.waits) == 1
    assert [i.preset.name for i in done.planner.instances.values()] == ["a"]
