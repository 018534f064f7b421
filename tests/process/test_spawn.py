"""How children are spawned: with their parent's death as their own, in a group of their own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
import uvloop

from scheduler.client import SchedulerClient
from scheduler.run_folder import control_socket
from scheduler.runtime.child import OOM_SCORE, guarded, spawned
from scheduler.runtime.engines.base import Command
from scheduler.runtime.engines.llama_server import LlamaServer
from scheduler.runtime.hearing import Stream

from .running import FAKE, PATIENCE, children, exists, is_alive, preset, running, short_var, until

PROGRAM = Path(__file__).with_name("scheduler_program.py")


def oom_score(pid: str) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


async def printed(command: Command) -> list[bytes]:
    lines: list[bytes] = []
    child = await spawned(command, lambda line, stream: lines.append(line))
    await child.ended()
    return lines


FLOOD = """
import os
os.write(1, b"go\\n")
os.read(0, 1)
for _ in range(400):
    os.write(2, b"".join(b"%d of a flood\\n" % at for at in range(1000)))
os.write(2, b"the last, without an end")
"""


def test_a_log_that_is_gathered_comes_whole_and_in_order_by_the_loop_of_runscheduler():
    uvloop.run(test_a_log_that_is_gathered_comes_whole_and_in_order())


async def test_a_log_that_is_gathered_comes_whole_and_in_order():
    gathered: list[bytes] = []
    lines: list[bytes] = []
    begun = asyncio.Event()

    def heard(line: bytes, stream: Stream) -> None:
        lines.append(line)
        begun.set()

    child = await spawned(Command((sys.executable, "-c", FLOOD), dict(os.environ)), heard)
    await begun.wait()
    child.gather_log(gathered.append)
    child.ask_exit()  # what it reads lets it go on
    assert await child.ended() == 0

    assert b"".join(gathered) == b"".join(b"%d of a flood\n" % at for at in range(1000)) * 400
    assert all(part.endswith(b"\n") for part in gathered)
    assert lines == [b"go", b"the last, without an end"]


async def test_a_child_leads_a_group_of_its_own():
    async with running() as gateway:
        await gateway.client.acquire("small")
        [pid] = children()

        assert os.getpgid(int(pid)) == int(pid)
        assert os.getsid(int(pid)) == int(pid)
    assert children() == []


async def test_the_kernel_takes_a_child_before_it_takes_us():
    async with running() as gateway:
        await gateway.client.acquire("small")
        [pid] = children()

        assert oom_score(pid) == OOM_SCORE
    assert children() == []


async def test_a_child_gets_no_secrets_and_what_its_preset_gives_it(monkeypatch):
    monkeypatch.setenv("CORRAL_SECRET_KEY", "hush")
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    spec = preset("a", env={"OWN": "yes", "LLAMA_SERVER_ROUTER_PORT": "0"})
    command = LlamaServer(lambda: FAKE).command(spec, "/run/x.sock")
    shown = Command(
        (sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"), command.env
    )

    [line] = await printed(shown)
    environment = json.loads(line)

    assert environment["OWN"] == "yes"
    assert environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert environment["LLAMA_SERVER_ROUTER_PORT"] == "1"
    assert environment["LLAMA_SERVER_CHILD_ROLE"] == "instance"
    assert not {"CORRAL_SECRET_KEY", "LLAMA_ARG_CTX_SIZE"} & set(environment)


def test_the_engine_listens_where_we_say_under_the_presets_name():
    command = LlamaServer(lambda: FAKE).command(preset("a"), "/run/x.sock")

    argv = list(command.argv)
    assert argv[0] == str(FAKE)
    assert argv[argv.index("--host") + 1] == "/run/x.sock"
    assert argv[argv.index("--alias") + 1] == "a"
    assert {"--offline", "--no-ui", "--slots"} <= set(argv)


async def test_a_child_dumps_no_core():
    asks = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
    for argv in (("setpriv",), (None,)):
        program = guarded((sys.executable, "-c", asks), os.getpid(), *argv)
        process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()

        assert out.strip() == b"(0, 0)"


async def test_of_a_child_that_has_ended_nothing_is_gathered_any_more():
    child = await spawned(
        Command((sys.executable, "-c", ""), dict(os.environ)), lambda line, stream: None
    )
    assert await child.ended() == 0
    gathered: list[bytes] = []

    child.gather_log(gathered.append)
    child.ask_exit()
    child.kill()

    assert gathered == []


@pytest.mark.parametrize("setpriv", ["setpriv", None])
@pytest.mark.parametrize("may_gain", [False, True])
async def test_a_child_gains_no_rights_unless_it_may(setpriv, may_gain):
    argv = guarded(("cat", "/proc/self/status"), os.getpid(), setpriv, may_gain=may_gain)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()

    assert f"NoNewPrivs:\t{int(not may_gain)}" in out.decode()


async def test_a_child_whose_parent_has_gone_already_is_not_started():
    for setpriv in ("setpriv", None):
        program = guarded(("echo", "started"), 1 << 30, setpriv)
        process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()

        assert out == b""
        assert process.returncode != 0


async def test_an_argument_is_no_shell_text():
    argv = guarded(("printf", "%s|", "a b", "$(date)", "'", "", "*"), os.getpid(), "setpriv")
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()

    assert out == b"a b|$(date)|'||*|"


async def test_without_setpriv_a_killed_scheduler_leaves_no_child_either():
    with short_var() as var:
        programs = var / "bin"
        programs.mkdir()
        (programs / "python3").symlink_to(sys.executable)
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), str(var), "a:--load-seconds:600",
            env={**os.environ, "PATH": str(programs)},
        )  # fmt: skip
        client = SchedulerClient(control_socket(var), reconnect_wait_seconds=PATIENCE)
        await client.start()
        await client.load("a")
        pids: list[int] = []

        async def spawned_one() -> bool:
            pids[:] = [i.pid for i in (await client.snapshot()).instances if i.pid]
            return bool(pids)

        await until(spawned_one, "a child was spawned")
        process.kill()
        await process.wait()
        await client.close()

        async def dead() -> bool:
            return not is_alive(pids[0])

        await until(dead, "the child has gone")


async def test_a_var_folder_too_long_for_a_socket_works_all_the_same():
    with short_var() as short:
        var = short / ("long-" * 20) / ("name-" * 20)
        var.mkdir(parents=True)
        async with running(var=var) as gateway:
            lease = await gateway.client.acquire("small")

            assert not lease.address.startswith(str(var))
            assert exists(lease.address)
            gateway_folder = gateway.config.run_folder
        assert children() == []
        for file in gateway_folder.iterdir():
            file.unlink()
        gateway_folder.rmdir()
