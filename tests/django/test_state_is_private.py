"""A state folder made before the first run, open to all, gives nothing of the state away."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_django import Settings

from routerproj.checks import check_state_is_private
from routerproj.secret import close_to_others
from tests.support.prepared import MANAGE, clean_environment

MIGRATE = ["migrate", "contenttypes"]  # the least of what makes a database


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.slow
def test_what_a_command_writes_into_an_open_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    done = subprocess.run(
        ["/bin/sh", "-c", 'umask 022; exec "$0" "$@"', sys.executable, str(MANAGE), *MIGRATE],
        env=clean_environment() | {"CORRAL_VAR": str(tmp_path)},
        capture_output=True,
    )

    assert done.returncode == 0, done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert tmp_path / "corral.sqlite3" in files
    assert [path.name for path in files if mode(path) & 0o077] == []


@pytest.mark.parametrize(
    "name", ["corral.sqlite3", "corral.sqlite3-wal", "jobs-measures.sqlite3-shm", "secret"]
)
def test_a_file_of_the_state_that_was_open_is_closed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch(0o644)

    close_to_others(tmp_path)

    assert mode(tmp_path / name) == 0o600


def test_a_file_that_is_no_state_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch(0o644)
    (tmp_path / "notes.txt").chmod(0o644)

    close_to_others(tmp_path)

    assert mode(tmp_path / "notes.txt") == 0o644


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch()
    elsewhere.chmod(0o644)
    (tmp_path / "other.sqlite3").symlink_to(elsewhere)

    close_to_others(tmp_path)

    assert mode(elsewhere) == 0o644


def test_an_open_folder_is_warned_of(settings: Settings, tmp_path: Path) -> None:
    settings.CORRAL_VAR = tmp_path
    tmp_path.chmod(0o755)

    assert [message.id for message in check_state_is_private(None)] == ["corral.W003"]


def test_a_closed_folder_is_not(settings: Settings, tmp_path: Path) -> None:
    settings.CORRAL_VAR = tmp_path
    tmp_path.chmod(0o700)

    assert check_state_is_private(None) == []


def test_a_file_that_stays_open_is_named(settings: Settings, tmp_path: Path) -> None:
    settings.CORRAL_VAR = tmp_path
    descriptor = os.open(tmp_path / "corral.sqlite3", os.O_CREAT | os.O_WRONLY)
    os.fchmod(descriptor, 0o644)
    os.close(descriptor)

    (message,) = check_state_is_private(None)

    assert message.id == "corral.W004"
    assert "corral.sqlite3" in message.msg
