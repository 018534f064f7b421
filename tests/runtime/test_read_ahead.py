"""While somebody waits for a model, its files are read into the page cache."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import scheduler.runtime.read_ahead as module
from models_registry.engines import EngineKind, EngineSetup
from scheduler.core.sizes import HOST, DeviceReading
from scheduler.runtime.devices.device import Device
from scheduler.runtime.owner import Owner
from scheduler.runtime.read_ahead import ReadAhead, fetch, host_room

from .standing_in import Stage, preset, staged, until

GIB = 1 << 30
PIECE = 100


class FakeFetch:
    """It reads nothing, and goes on when it is told to."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, int, int]] = []
        self.may = threading.Semaphore(1000)

    def __call__(self, path: Path, begin: int, size: int) -> None:
        self.pieces.append((path.name, begin, size))
        assert self.may.acquire(timeout=10)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> FakeFetch:
    monkeypatch.setattr(module, "PIECE_BYTES", PIECE)
    return FakeFetch()


def model(folder: Path, name: str = "b", size: int = 250, **fields):
    path = folder / f"{name}.gguf"
    path.write_bytes(b"." * size)
    return preset(name, files=(str(path),), **fields)


@contextlib.asynccontextmanager
async def waiting_for(
    spec, fetched: FakeFetch, *, room: Callable[[Owner], int] = host_room, name: str = "b"
) -> AsyncIterator[tuple[Stage, object]]:
    """Another model answers, and somebody waits for this one."""
    async with staged(
        preset("a"),
        spec,
        models_max=1,
        read=lambda owner: ReadAhead(owner, fetch=fetched, room=room),
    ) as stage:
        host = Device(DeviceReading(HOST, 2 * GIB, GIB, 0), "", "host")
        stage.owner.memory.seen((host,))
        busy = stage.ask("a")
        await busy.run()
        asking = stage.ask(name)
        await stage.owner.caught_up()
        try:
            yield stage, asking
        finally:
            busy.release()
            asking.cancel()


async def test_all_of_a_model_is_read_while_another_one_still_answers(tmp_path, fetched):
    async with waiting_for(model(tmp_path), fetched) as (_, asking):
        await until(lambda: len(fetched.pieces) == 3)

        assert fetched.pieces == [("b.gguf", 0, 100), ("b.gguf", 100, 100), ("b.gguf", 200, 50)]
        assert not asking.answer.done()


async def test_of_shards_and_of_what_belongs_to_a_model_all_is_read(tmp_path, fetched):
    for name in ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "mmproj.gguf"):
        (tmp_path / name).write_bytes(b"." * 10)
    files = (str(tmp_path / "m-00001-of-00002.gguf"), str(tmp_path / "mmproj.gguf"))
    async with waiting_for(preset("b", files=files), fetched):
        await until(lambda: len(fetched.pieces) == 3)

        assert [name for name, _, _ in fetched.pieces] == [
            *("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "mmproj.gguf")
        ]


async def test_it_stops_when_nobody_waits_any_more(tmp_path, fetched):
    fetched.may = threading.Semaphore(0)
    async with waiting_for(model(tmp_path), fetched) as (stage, asking):
        await until(lambda: fetched.pieces)
        asking.cancel()
        await stage.owner.caught_up()
        fetched.may.release(1000)
        again = stage.ask("a")
        again.cancel()
        await stage.owner.caught_up()

    assert len(fetched.pieces) == 1


async def test_no_more_is_read_than_the_host_has_free(tmp_path, fetched):
    async with waiting_for(model(tmp_path), fetched, room=lambda owner: 220) as (stage, asking):
        await until(lambda: len(fetched.pieces) == 2)
        asking.cancel()
        await stage.owner.caught_up()

    assert len(fetched.pieces) == 2


async def test_of_a_host_that_was_never_read_nothing_is_taken(tmp_path, fetched):
    async with staged(
        preset("a"),
        model(tmp_path),
        models_max=1,
        read=lambda owner: ReadAhead(owner, fetch=fetched),
    ) as stage:
        busy = stage.ask("a")
        await busy.run()
        asking = stage.ask("b")
        await stage.owner.caught_up()
        asking.cancel()
        busy.release()

    assert fetched.pieces == []


@pytest.mark.parametrize(
    "fields",
    [
        {"argv": ("--load-mode", "dio")},
        {"engine": EngineSetup(kind=EngineKind.COMMAND, command_line="serve")},
    ],
    ids=["past the page cache", "another engine"],
)
async def test_what_is_not_read_by_way_of_the_page_cache_is_left_alone(tmp_path, fetched, fields):
    async with waiting_for(model(tmp_path, **fields), fetched):
        pass

    assert fetched.pieces == []


async def test_a_model_that_runs_is_not_read_again(tmp_path, fetched):
    async with staged(
        model(tmp_path, "a"), read=lambda owner: ReadAhead(owner, fetch=fetched)
    ) as stage:
        host = Device(DeviceReading(HOST, 2 * GIB, GIB, 0), "", "host")
        stage.owner.memory.seen((host,))
        busy = stage.ask("a")
        await busy.run()
        fetched.pieces.clear()
        asking = stage.ask("a")
        await stage.owner.caught_up()

        assert fetched.pieces == []
        busy.release()
        asking.cancel()


async def test_a_file_that_is_gone_stops_nothing(tmp_path, fetched):
    spec = preset("b", files=(str(tmp_path / "gone.gguf"),))
    async with waiting_for(spec, fetched) as (stage, asking):
        await stage.owner.caught_up()

        assert fetched.pieces == []
        assert not asking.answer.done()


def test_a_piece_that_is_fetched_is_in_the_page_cache_to_its_last_byte(tmp_path):
    path = tmp_path / "x"
    size = (5 << 20) + 904
    path.write_bytes(b"." * size)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

        fetch(path, 0, size)

        for at in [*range(0, size, 4096), size - 1]:  # raises where it would have to be read
            os.preadv(file.fileno(), [bytearray(1)], at, os.RWF_NOWAIT)


def test_a_file_that_is_gone_is_told(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        fetch(tmp_path / "gone", 0, 1)
