"""The supervisor with small programs in the place of its processes."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from routerproj.serve.output import Output
from routerproj.serve.process import Role
from routerproj.serve.supervisor import CannotStart, Plan, Supervisor

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
FAILS = "import sys; sys.exit('no such model')"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


class Printed:
    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.output = Output(self._stream)

    def text(self) -> str:
        assert self.output.flush()
        return self._stream.getvalue()


def supervisor(
    listener: socket.socket, folder: Path, *, scheduler: str = SLEEPS, web: str = SLEEPS
) -> tuple[Supervisor, Printed]:
    def role(name: str, program: str) -> Role:
        return Role(name, [sys.executable, "-c", program], os.environ)

    printed = Printed()
    plan = Plan(
        scheduler=role("scheduler", scheduler),
        web=[role("web", web)],
        jobs=role("jobs", SLEEPS),
        control_socket=folder / "none.sock",
        listeners=[listener],
        url="http://127.0.0.1:1",
        drain_timeout_seconds=0.1,
    )
    return Supervisor(plan, printed.output), printed


async def until_up(printed: Printed, processes: int) -> None:
    async with asyncio.timeout(60):
        while printed.text().count("| up") < processes:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_one_that_keeps_dying_ends_the_start_and_says_why(
    listener: socket.socket, tmp_path: Path
) -> None:
    supervised, printed = supervisor(listener, tmp_path, scheduler=FAILS)

    with pytest.raises(CannotStart, match="scheduler does not start"):
        await supervised.run()

    assert "scheduler | no such model" in printed.text()
    assert [process.pid for process in supervised.processes] == [None, None, None]


async def test_a_stop_before_all_is_ready_is_clean(listener: socket.socket, tmp_path: Path) -> None:
    supervised, printed = supervisor(listener, tmp_path)
    running = asyncio.create_task(supervised.run())
    await until_up(printed, 3)

    supervised.stop()

    assert await running
    assert listener.fileno() == -1
    assert "is ready" not in printed.text()


async def test_one_that_ignores_the_stop_is_killed_when_its_time_is_over(
    listener: socket.socket, tmp_path: Path
) -> None:
    supervised, printed = supervisor(listener, tmp_path, web=STUBBORN)
    running = asyncio.create_task(supervised.run())
    await until_up(printed, 3)

    supervised.stop()

    assert await running
    assert [process.pid for process in supervised.processes] == [None, None, None]


async def test_a_second_stop_does_not_wait(listener: socket.socket, tmp_path: Path) -> None:
    supervised, printed = supervisor(listener, tmp_path, web=STUBBORN, scheduler=STUBBORN)
    running = asyncio.create_task(supervised.run())
    await until_up(printed, 3)

    supervised.stop()
    supervised.stop()

    assert not await running
