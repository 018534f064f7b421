"""Nobody has to read what `serve` prints: it serves, restarts and stops all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from routerproj.serve.output import MOST_WAITING, Output
from tests.support.polling import eventually

TALKS = """
import asyncio, os, sys
from routerproj.serve.output import Output
from routerproj.serve.process import Role, SupervisedProcess

async def main():
    talker = "import os, sys, time\\nfor n in range(200000): print('line', n, 'x' * 100)"
    talker += "\\nopen(sys.argv[1], 'w').close()\\ntime.sleep(600)"
    output = Output(sys.stdout)
    role = Role("talker", [sys.executable, "-c", talker, sys.argv[1]], os.environ)
    process = SupervisedProcess(role, output)
    running = asyncio.create_task(process.run())
    while not os.path.exists(sys.argv[1]):
        await asyncio.sleep(0.01)
    process.stop(9)
    await running
    output.say("the loop was never held up")
    if sys.argv[2] == "read":
        output.flush(60)

asyncio.run(main())
"""


@contextmanager
def talking(folder: Path, what: str) -> Iterator[subprocess.Popen[str]]:
    """A supervised process that prints 20 MB, and nobody to read them yet."""
    process = subprocess.Popen(
        [sys.executable, "-c", TALKS, str(folder / "said"), what],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        with process:
            yield process
            process.kill()
    finally:
        process.kill()


@pytest.mark.slow
def test_a_process_that_talks_to_nobody_is_not_held_up(tmp_path: Path) -> None:
    with talking(tmp_path, "leave") as process:
        assert process.wait(60) == 0

        assert (tmp_path / "said").exists()


@pytest.mark.slow
def test_who_reads_on_is_told_how_many_lines_are_missing(tmp_path: Path) -> None:
    with talking(tmp_path, "read") as process:
        eventually(lambda: (tmp_path / "said").exists(), "the talker has said all", 60)
        assert process.stdout

        lines = process.stdout.read().splitlines()

    gaps = [place for place, line in enumerate(lines) if "were dropped here" in line]
    assert gaps  # more than one where the reader comes before the talker has ended
    for gap in gaps:
        dropped = int(lines[gap].split()[0].lstrip("("))
        before, after = (int(lines[place].split()[3]) for place in (gap - 1, gap + 1))
        assert after - before == dropped + 1
    assert lines[-2:] == [
        "talker    | line 199999 " + "x" * 100,
        "the loop was never held up",
    ]


def test_what_serve_says_itself_is_not_dropped_for_what_its_processes_say() -> None:
    reading, writing = os.pipe()
    with open(writing, "w") as stream:  # noqa: PTH123 - a descriptor
        output = Output(stream)
        output.say("the password")
        for _ in range(4 * MOST_WAITING // 60_000):
            output.say_of_process("web", "x" * 60_000)
        with open(reading, encoding="utf-8") as reader:  # noqa: PTH123
            assert reader.readline() == "the password\n"
            eventually(lambda: "dropped" in reader.readline(), "the gap is told")


def test_a_reader_that_went_away_is_no_reason_to_stop() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream:  # noqa: PTH123 - a descriptor
        output = Output(stream)

        output.say("hello")
        output.say("is anybody there?")

        assert output.flush()
