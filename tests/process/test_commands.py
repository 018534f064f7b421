"""Servers that know nothing of Corral as children: ready, asked, ended, whatever they fork."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from scheduler.protocol import Refused
from scheduler.run_folder import control_socket
from scheduler.runtime import engine_runner

from .running import children, exists, is_alive, running, served, short_var, until
from .test_scheduler_killed import scheduler


@pytest.fixture
def pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in and all that it forks leave their pids."""
    folder = tmp_path / "pids"
    folder.mkdir()
    return folder


def noting(pids: Path) -> dict[str, dict[str, str]]:
    return {"env": {"PIDS": str(pids)}}


def alive(pids: Path) -> list[int]:
    return [pid for entry in pids.iterdir() if is_alive(pid := int(entry.name))]


async def all_gone(pids: Path) -> None:
    async def gone() -> bool:
        return not alive(pids)

    await until(gone, "the whole tree is gone")


async def ask(address: str, path: str = "/health") -> tuple[int, str]:
    is_path = address.startswith("/")
    connector = aiohttp.UnixConnector(address) if is_path else aiohttp.TCPConnector()
    base = "http://localhost" if is_path else f"http://{address}"
    async with (
        aiohttp.ClientSession(base, connector=connector) as session,
        session.get(path) as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize("by", ["port", "socket"])
async def test_it_is_granted_where_it_listens_once_it_is_healthy(by: str, pids: Path) -> None:
    async with running([served("a", "--late", "0.3", by=by, **noting(pids))]) as gateway:
        lease = await gateway.client.acquire("a")

        assert lease.address.startswith("127.0.0.1:" if by == "port" else "/")
        assert (await ask(lease.address))[0] == 200
        (instance,) = (await gateway.snapshot()).instances
        assert instance.state == "loaded"
    assert alive(pids) == []
    assert children() == []


async def test_what_it_prints_is_never_taken_for_a_report(pids: Path) -> None:
    async with running([served("a", "--lies", "--never", **noting(pids))]) as gateway:
        await gateway.client.load("a")

        async def runs() -> bool:
            return bool(alive(pids))

        await until(runs, "it runs")
        await asyncio.sleep(0.3)
        assert [each.state for each in (await gateway.snapshot()).instances] == ["loading"]
    assert alive(pids) == []


@pytest.mark.parametrize(
    "flags",
    [[], ["--helpers", "--daemon"], ["--deaf"], ["--deaf", "--helpers", "--daemon"]],
    ids=["plain", "forking", "deaf", "deaf and forking"],
)
async def test_whatever_it_forks_ends_with_it(flags: list[str], pids: Path) -> None:
    async with running([served("a", *flags, **noting(pids))]) as gateway:
        await (await gateway.client.acquire("a")).release()
        assert len(alive(pids)) == (4 if "--daemon" in flags else 1)

        await gateway.client.unload("a")

        await until(gateway.nothing_runs, "it has been unloaded")
        assert alive(pids) == []


async def test_one_that_never_becomes_healthy_is_killed_with_all_it_forked(pids: Path) -> None:
    spec = served("a", "--never", "--deaf", "--helpers", "--daemon", **noting(pids))
    async with running([spec]) as gateway:
        await gateway.client.load("a")

        async def forked() -> bool:
            return len(alive(pids)) == 4

        await until(forked, "it has forked")
        await gateway.client.unload("a", force=True)

        await until(gateway.nothing_runs, "it has been ended")
        assert alive(pids) == []


async def test_one_that_dies_at_once_tells_its_code_and_its_last_words() -> None:
    async with running([served("a", "--die-at-once", "7")]) as gateway:
        with pytest.raises(Refused) as refused:
            await gateway.client.acquire("a")

    assert refused.value.code == "model_load_failed"
    assert "7" in refused.value.message
    assert "no such weights" in refused.value.message


async def test_one_that_goes_into_the_background_is_told_to_stay() -> None:
    async with running([served("a", "--die-at-once", "0")]) as gateway:
        with pytest.raises(Refused, match="it has to run in the foreground"):
            await gateway.client.acquire("a")


async def test_a_program_that_is_not_there_is_told_by_its_name() -> None:
    spec = served("a")
    line = spec.engine.command_line.split(" ", 1)[1]
    spec = replace(spec, engine=replace(spec.engine, command_line=f"/nowhere/server {line}"))
    async with running([spec]) as gateway:
        with pytest.raises(Refused, match="there is no program /nowhere/server"):
            await gateway.client.acquire("a")


@pytest.fixture
def thief(tmp_path: Path) -> Iterator[Path]:
    """Takes the port that it is told of, the first time; it is nobody's child."""
    path = tmp_path / "thief"
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(path))
    door.listen()
    taken = socket.socket()

    def serve() -> None:
        for number in range(2):
            asked, _ = door.accept()
            port = int(asked.recv(16))
            if number == 0:
                taken.bind(("127.0.0.1", port))
                taken.listen()
            asked.sendall(b"x")
            asked.close()

    threading.Thread(target=serve, daemon=True).start()
    yield path
    door.close()
    taken.close()


async def test_a_port_that_was_taken_meanwhile_is_given_up_for_another(thief: Path) -> None:
    async with running([served("a", "--steal", env={"THIEF": str(thief)})]) as gateway:
        lease = await gateway.client.acquire("a")

        assert (await ask(lease.address))[0] == 200
        (instance,) = (await gateway.snapshot()).instances
        assert instance.state == "loaded"


async def test_a_crash_is_seen_and_the_next_request_starts_it_anew(pids: Path) -> None:
    async with running([served("a", "--helpers", "--daemon", **noting(pids))]) as gateway:
        first = await gateway.client.acquire("a")
        server = min(alive(pids))

        os.kill(server, 9)

        await until(gateway.nothing_runs, "its end was seen")
        assert alive(pids) == []
        second = await gateway.client.acquire("a")
        assert second.instance != first.instance


async def test_a_scheduler_killed_outright_leaves_nothing_that_it_forked(pids: Path) -> None:
    with short_var() as var:
        flags = f"--pids:{pids}:--deaf:--helpers:--daemon"
        async with scheduler(var, f"@a:{flags}") as program:
            lease = await program.client.acquire("a")
            assert len(alive(pids)) == 4

            program.process.kill()
            await program.process.wait()
            await all_gone(pids)

            assert lease.address
            assert exists(control_socket(var))


async def test_a_runner_that_is_killed_takes_its_server_with_it(pids: Path) -> None:
    async with running([served("a", **noting(pids))]) as gateway:
        await gateway.client.acquire("a")
        (runner,) = children()

        os.kill(int(runner), 9)

        await until(gateway.nothing_runs, "its end was seen")
        await all_gone(pids)


@pytest.mark.parametrize(("address", "warned"), [("0100007F", False), ("00000000", True)])
def test_a_server_that_listens_beyond_this_machine_is_told_of(
    address: str, warned: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine_runner, "listeners", lambda port: {"1": address})

    engine_runner._warn_of_listeners(4711)

    assert ("tell it to listen on 127.0.0.1" in capfd.readouterr().err) is warned


async def test_one_that_is_to_be_probed_answers_once_before_it_counts_as_loaded() -> None:
    async with running([served("a", readiness_probe=True)]) as gateway:
        lease = await gateway.client.acquire("a")

        assert (await ask(lease.address))[0] == 200


async def test_one_that_is_healthy_and_answers_garbage_fails_its_probe(pids: Path) -> None:
    spec = served("a", "--garbage", "--helpers", readiness_probe=True, **noting(pids))
    async with running([spec]) as gateway:
        with pytest.raises(Refused, match="generated nothing"):
            await gateway.client.acquire("a")

        assert alive(pids) == []


async def test_one_that_hangs_is_ended_and_started_anew(pids: Path) -> None:
    spec = served("a", "--helpers", "--daemon", **noting(pids))
    async with running([spec], health_every_seconds=0.2, health_tries=2) as gateway:
        first = await gateway.client.acquire("a")
        await first.release()
        os.kill(min(alive(pids)), signal.SIGSTOP)

        await until(gateway.nothing_runs, "it was found silent")
        assert alive(pids) == []
        second = await gateway.client.acquire("a")
        assert second.instance != first.instance
