"""What `serve`'s own command line and environment do to the engine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from models_registry.engine_path import llama_server
from tests.support.gateway import Gateway, gateway

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ONE_MODEL = {"alpha": {"seed": 1}}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """In a folder whose path is too long for a socket, with the engine that is found on PATH."""
    folder = tmp_path_factory.mktemp("small")
    own = _own_engine(folder / "bin")
    args = ["-c", "4096", "-ngl", "0"]
    env = {"CORRAL_LLAMA_SERVER": "PATH", "PATH": f"{own.parent}:/usr/bin:/bin"}
    with gateway(folder / ("long" * 30), args=args, env=env, models=ONE_MODEL) as running:
        assert running.client.chat("alpha").status == 200
        yield running


@pytest.mark.parametrize(("option", "value"), [("--ctx-size", "4096"), ("--n-gpu-layers", "0")])
def test_short_options_reach_the_childs_command_line(
    small: Gateway, option: str, value: str
) -> None:
    argv = small.child_of("alpha").argv

    assert argv[argv.index(option) + 1] == value


def test_the_child_listens_on_a_socket_only_its_owner_can_reach(small: Gateway) -> None:
    socket = Path(small.child_of("alpha").socket)

    assert socket.is_socket()
    assert socket.parent.stat().st_mode & 0o077 == 0


def test_the_child_has_no_secrets_in_its_environment(small: Gateway) -> None:
    environment = Path(f"/proc/{small.child_of('alpha').pid}/environ").read_bytes()

    assert b"CORRAL_" not in environment
    assert small.key.encode() not in environment


def test_a_llama_server_named_by_its_path_is_used(tmp_path: Path) -> None:
    own = _own_engine(tmp_path / "bin")
    env = {"CORRAL_LLAMA_SERVER": str(own)}

    with gateway(tmp_path, env=env, models=ONE_MODEL) as running:
        assert running.client.chat("alpha").status == 200
        assert _program(running) == own


def test_the_llama_server_on_path_is_used_when_asked(small: Gateway) -> None:
    assert _program(small) == small.var.parents[1] / "bin" / "llama-server"


def test_a_very_long_state_folder_works(small: Gateway) -> None:
    assert len(str(small.var)) > 120
    assert len(small.child_of("alpha").socket) < 108


def _own_engine(folder: Path) -> Path:
    """A copy of the engine's program, its libraries found where the original finds them."""
    original = llama_server()
    folder.mkdir()
    shutil.copy(original, folder / "llama-server")
    (folder.parent / "lib").symlink_to(original.parent.parent / "lib")
    return folder / "llama-server"


def _program(running: Gateway) -> Path:
    return Path(f"/proc/{running.child_of('alpha').pid}/exe").readlink()
