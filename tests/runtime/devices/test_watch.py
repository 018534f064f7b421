"""The watch looks when it should, and a look that hangs stops nobody."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from scheduler.core.sizes import HOST, DeviceReading
from scheduler.runtime.devices.device import Device
from scheduler.runtime.devices.watch import DeviceWatch

PATIENCE = 20.0
LONG = 3600.0


def seen(free: int) -> tuple[Device, ...]:
    return (Device(DeviceReading(HOST, 100, free), "main memory", "Host"),)


class Reader:
    """Each look waits until it may go on, if `gate` is closed."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.looks: list[tuple[frozenset[int], bool]] = []
        self.under_way = self.most_at_once = 0
        self.failure: Exception | None = None
        self.closed = False
        self.began = threading.Event()

    async def looks_now(self):
        assert await asyncio.to_thread(self.began.wait, PATIENCE)

    def read(self, ours, fresh):
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        self.looks.append((ours, fresh))
        self.began.set()
        number = len(self.looks)
        try:
            assert self.gate.wait(PATIENCE)
            if self.failure:
                raise self.failure
            return seen(number)
        finally:
            self.under_way -= 1

    def close(self):
        self.closed = True


class Watched:
    def __init__(self, **times: float) -> None:
        self.reader = Reader()
        self.told: list[tuple[Device, ...]] = []
        self.heard = asyncio.Event()
        self.pids: set[int] = set()
        self.watch = DeviceWatch(
            self.reader, ours=lambda: self.pids, told=self.take, **{"every_seconds": LONG, **times}
        )

    def take(self, devices):
        self.told.append(devices)
        self.heard.set()

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self.heard.clear()
                await self.heard.wait()

    @property
    def frees(self) -> list[int]:
        return [devices[0].reading.free for devices in self.told]


@contextlib.asynccontextmanager
async def watching(**times: float):
    watched = Watched(**times)
    task = asyncio.create_task(watched.watch.run())
    try:
        yield watched
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        watched.reader.gate.set()
        await watched.watch.close()


async def test_it_looks_at_once_and_then_again_and_again():
    async with watching(every_seconds=0.01) as watched:
        await watched.until(lambda: watched.frees[:3] == [1, 2, 3])


async def test_it_asks_anew_whose_children_are_ours():
    async with watching() as watched:
        await watched.until(lambda: watched.told)
        watched.pids = {7}
        watched.watch.look_soon()
        await watched.until(lambda: len(watched.told) == 2)
        await asyncio.sleep(0.1)  # and no more looks than that

    assert watched.reader.looks == [(frozenset(), False), (frozenset({7}), True)]


async def test_an_exit_during_a_look_makes_another_one():
    async with watching() as watched:
        watched.reader.gate.clear()
        await watched.reader.looks_now()
        watched.watch.look_soon()
        watched.watch.look_soon()
        watched.reader.gate.set()
        await watched.until(lambda: len(watched.told) == 2)

    assert len(watched.reader.looks) == 2
    assert watched.reader.most_at_once == 1


async def test_while_bytes_return_it_hurries():
    async with watching(hurried_seconds=0.01) as watched:
        await watched.until(lambda: watched.told)
        await asyncio.sleep(0.1)  # it now waits for the next look, an hour away
        watched.watch.hurry = True
        await watched.until(lambda: len(watched.told) >= 5)
        watched.watch.hurry = False
        assert not watched.watch.hurry


async def test_a_look_that_hangs_leaves_the_last_figures_as_stale(caplog):
    async with watching(hangs_seconds=0.05) as watched:
        await watched.until(lambda: watched.told)
        watched.reader.gate.clear()
        watched.watch.look_soon()
        await watched.until(lambda: len(watched.told) >= 4)
        stale = watched.told[-1][0]
        watched.reader.gate.set()
        await watched.until(lambda: watched.told[-1][0].stale is None)

    assert stale.reading.free == 1
    assert stale.stale > 0
    assert "do not answer" in stale.warning
    assert watched.told[-1][0].reading.free == 2  # the look that hung, now done
    assert watched.reader.most_at_once == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_a_look_that_fails_leaves_the_last_figures_and_the_watch_goes_on():
    async with watching(every_seconds=0.01) as watched:
        await watched.until(lambda: watched.told)
        watched.reader.failure = RuntimeError("a bug")
        await watched.until(lambda: watched.told[-1][0].stale is not None)
        assert "a bug" in watched.told[-1][0].warning
        watched.reader.failure = None
        await watched.until(lambda: watched.told[-1][0].stale is None)


async def test_closing_closes_the_devices_in_their_thread():
    async with watching() as watched:
        await watched.until(lambda: watched.told)

    assert watched.reader.closed


async def test_closing_leaves_a_hanging_look_behind(monkeypatch):
    monkeypatch.setattr("scheduler.runtime.devices.watch.CLOSE_SECONDS", 0.05)
    watched = Watched()
    watched.reader.gate.clear()
    task = asyncio.create_task(watched.watch.run())
    await watched.reader.looks_now()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await watched.watch.close()

    assert not watched.reader.closed
    watched.reader.gate.set()


@pytest.fixture(autouse=True)
def _warnings_are_seen(caplog):
    caplog.set_level("WARNING")
