"""The writer of the event log: bounded, private, and no matter of the scheduling."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from scheduler.core.events import PresetsChanged, Ticked
from scheduler.core.values import Config, PresetName, PresetSpec
from scheduler.runtime.event_log import Gap, Header, Step, read_event_log, read_life
from scheduler.runtime.event_writer import EventWriter
from scheduler.runtime.replay import replay
from tests.support.polling import eventually

from .standing_in import preset, staged


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        self.now += 0.1
        return self.now


def writer(folder, **fields) -> EventWriter:
    made = EventWriter(folder, Config(models_max=7), Clock(), **fields)
    made.start()
    return made


def parts(folder):
    return sorted(folder.glob("events-*.jsonl"))


def test_what_is_noted_is_written_with_its_time_and_its_config(tmp_path):
    log = writer(tmp_path)
    log(0.1 + 0.2, Ticked(), [])
    log.stop()

    [part] = parts(tmp_path)
    header, step = read_event_log(part)
    assert (header.config.models_max, header.part) == (7, 1)
    assert step == Step(2, 0.1 + 0.2, Ticked(), ())


def test_it_is_written_while_the_scheduler_runs(tmp_path):
    log = writer(tmp_path)
    log(1.0, Ticked(), [])

    eventually(lambda: len(list(read_event_log(parts(tmp_path)[0]))) == 2, "the step is written")
    log.stop()


def test_others_may_not_read_it(tmp_path):
    writer(tmp_path / "logs").stop()

    assert parts(tmp_path / "logs")[0].stat().st_mode & 0o077 == 0


def test_a_part_that_is_full_is_followed_by_one_that_knows_the_presets(tmp_path):
    log = writer(tmp_path, part_bytes=4000)
    spec = PresetSpec(PresetName("a"))
    log(1.0, PresetsChanged((spec,)), [])
    for number in range(100):
        log(2.0 + number, Ticked(), [])
    log.stop()

    first, second, *_ = parts(tmp_path)
    header = next(read_event_log(second))
    assert isinstance(header, Header)
    assert header.presets == (spec,)
    assert header.now == [line for line in read_event_log(first)][-1].now
    steps = [line for _, line in read_life(parts(tmp_path)[-1]) if isinstance(line, Step)]
    assert [step.now for step in steps] == [1.0, *(2.0 + number for number in range(100))]


def test_no_more_than_so_many_parts_are_kept_of_all_lives(tmp_path):
    (tmp_path / "a.log").write_text("a child's")
    (tmp_path / "events-20200101T000000Z-abcdef-0001.jsonl").write_text("an earlier life")
    log = writer(tmp_path, part_bytes=1, parts_kept=3)
    for number in range(10):
        log(float(number), Ticked(), [])
    log.stop()

    assert [path.name[-10:] for path in parts(tmp_path)] == [
        *("0009.jsonl", "0010.jsonl", "0011.jsonl"),
    ]
    assert (tmp_path / "a.log").exists()


def test_steps_that_were_lost_are_told(tmp_path):
    log = EventWriter(tmp_path, Config(), Clock(), queue_limit=2)
    for number in range(5):
        log(float(number), Ticked(), [])
    log.start()
    eventually(lambda: len(list(read_event_log(parts(tmp_path)[0]))) == 3, "they are written")
    log(9.0, Ticked(), [])
    log.stop()

    lines = list(read_event_log(parts(tmp_path)[0]))[1:]
    assert [type(line) for line in lines] == [Step, Step, Gap, Step]
    assert lines[2].lost == 3
    assert "3 steps are missing" in replay(parts(tmp_path)[0]).missing


@pytest.mark.parametrize("where", ["file", "/dev/full"])
def test_a_disk_that_fails_ends_the_log_and_nothing_else(tmp_path, caplog, where):
    folder = tmp_path / "file"
    folder.touch()
    if where == "/dev/full":
        folder = tmp_path / "logs"
    log = EventWriter(folder, Config(), Clock())
    log.start()
    if where == "/dev/full":
        [part] = parts(folder)
        os.dup2(os.open("/dev/full", os.O_WRONLY), fd_of(part))
    log(1.0, Ticked(), [])
    log.stop()
    log(2.0, Ticked(), [])

    assert "the event log ends here" in caplog.text


def fd_of(path) -> int:
    for fd in Path("/proc/self/fd").iterdir():
        if os.path.realpath(fd) == str(path):
            return int(fd.name)
    raise AssertionError(f"{path} is not open")


async def test_a_recorded_life_is_replayed_without_a_difference(tmp_path):
    log = EventWriter(tmp_path, Config(models_max=1), Clock())
    log.start()
    async with staged(preset("a"), preset("b"), models_max=1, note=log) as stage:
        for name in "abba":
            asked = stage.ask(name)
            await asked.run()
            asked.release()
        stage.ask("nobody knows it")
        await stage.owner.caught_up()
        stage.children[-1].end(11)
        stage.ask("a").cancel()
    log.stop()

    done = replay(parts(tmp_path)[0])

    assert done.difference is None
    assert done.decisions["Start requested"] >= 3
    assert len(done.waits) >= 4
    assert done.events["Requested"] >= 4
