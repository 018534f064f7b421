"""Chaos on the real thing: everything that can break breaks at random, and nothing else does.

CORRAL_CHAOS_SECONDS says for how long (30), CORRAL_CHAOS_SEED how (the same seed throws the same
faults, not at the same requests), CORRAL_CHAOS_REPORT where the figures go: as a section of a .md
file, or as JSON.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.frame import machine
from benchmarks.results import write_section
from scheduler.runtime.replay import replay
from tests.support.gateway import Gateway

from .chaos.crowd import Crowd
from .chaos.report import Report, as_text
from .chaos.rules import Life
from .chaos.stage import PRESETS, Stage, stage
from .chaos.storm import Storm
from .chaos.watch import Watch

SECONDS = float(os.environ.get("CORRAL_CHAOS_SECONDS", "30"))
SEED = int(os.environ.get("CORRAL_CHAOS_SEED", "1"))
RECOVERY_SECONDS = 120.0
SCHEDULER_SHARE, SCHEDULER_SECONDS = 0.4, 600.0
"""For this share of the time, and at most so long, the scheduler is hit as well."""

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS + 2 * RECOVERY_SECONDS + 300),
]


def test_whatever_breaks_each_request_ends_rightly_and_nothing_is_left_behind(
    tmp_path: Path,
) -> None:
    with stage(tmp_path) as staged:
        report = asyncio.run(_weather(staged))
    report.watch.keep_event_logs()
    _read_event_logs(report, tmp_path / "events")
    report.judge()
    _keep(report)

    assert report.violations == [], str(report)


async def _weather(staged: Stage) -> Report:
    """Calm, storm, calm."""
    loop = asyncio.get_running_loop()
    crowd = Crowd(staged, random.Random(SEED + 1))
    await crowd.learn()
    bursts = set()

    def burst(count: int) -> None:
        bursts.add(asyncio.run_coroutine_threadsafe(crowd.burst(count), loop))

    began = time.monotonic()
    hit_until = began + min(SCHEDULER_SHARE * SECONDS, SCHEDULER_SECONDS)
    storm = Storm(staged, random.Random(SEED), burst, hit_until)
    watch = Watch(staged.gateway, event_logs=staged.folder / "events")
    over = asyncio.Event()
    watch.start()
    storm.start()
    try:
        loop.call_later(SECONDS, over.set)
        await crowd.ask_until(over)
    finally:
        await asyncio.to_thread(storm.end)
        for asked in bursts:
            await asyncio.wrap_future(asked)
    lasted = time.monotonic() - began
    await asyncio.to_thread(staged.gateway.wait_ready, RECOVERY_SECONDS)
    recovered = {preset: await crowd.answered_by(preset, RECOVERY_SECONDS) for preset in PRESETS}
    await asyncio.to_thread(watch.end)
    ends = _ends(staged.gateway)
    return Report(SEED, lasted, crowd.outcomes, storm, watch, recovered, ends)


def _read_event_logs(report: Report, folder: Path) -> None:
    """After everything has ended: each life of a scheduler, from its first event to its last."""
    last = {log.name.rpartition("-")[0]: log for log in sorted(folder.glob("events-*.jsonl"))}
    for log in last.values():
        life = Life(log)
        life.check()
        report.lives.append(life)
        again = replay(log)
        if again.difference or again.missing:
            report.replays.append(f"{again.difference} {again.missing}")


def _ends(running: Gateway) -> Counter[str]:
    with closing(sqlite3.connect(running.var / "corral.sqlite3", timeout=20)) as rows:
        query = "SELECT reason FROM scheduler_instancerecord WHERE ended_at IS NOT NULL"
        return Counter(reason for (reason,) in rows.execute(query))


def _keep(report: Report) -> None:
    if path := os.environ.get("CORRAL_CHAOS_REPORT"):
        if path.endswith(".md"):
            write_section(Path(path), "Chaos", f"{machine()}\n\n{as_text(report.figures())}")
        else:
            Path(path).write_text(f"{report}\n")
    print(report)
