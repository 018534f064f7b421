"""System checks: each says what is wrong, under an id that docs/messages.md explains."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pytest_django import Settings

from routerproj.checks import (
    check_engine,
    check_sockets_folder,
    check_state_folder,
    check_telemetry,
)

ROOT = Path(__file__).resolve().parent.parent.parent


def ids(found: object) -> list[str]:
    return [message.id for message in found]  # type: ignore[attr-defined]


def program(folder: Path, script: str) -> str:
    path = folder / "llama-server"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_state_folder_that_is_not_there_is_an_error(settings: Settings, tmp_path: Path) -> None:
    settings.CORRAL_VAR = tmp_path / "missing"

    assert ids(check_state_folder(None)) == ["corral.E001"]


def test_a_sockets_folder_that_is_a_link_is_an_error(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(tmp_path)
    settings.CORRAL_RUN_FOLDER = tmp_path / "run"

    assert ids(check_sockets_folder(None)) == ["corral.E002"]


def test_a_folder_that_is_not_there_yet_is_safe(settings: Settings, tmp_path: Path) -> None:
    settings.CORRAL_RUN_FOLDER = tmp_path / "run"

    assert check_sockets_folder(None) == []


def test_a_missing_engine_is_a_warning(settings: Settings, tmp_path: Path) -> None:
    settings.CORRAL_LLAMA_SERVER = str(tmp_path / "missing")

    assert ids(check_engine(None)) == ["corral.W001"]


@pytest.mark.parametrize("script", ["echo no such instruction >&2; exit 3", "kill -ILL $$"])
def test_an_engine_that_does_not_run_is_a_warning(
    settings: Settings, tmp_path: Path, script: str
) -> None:
    settings.CORRAL_LLAMA_SERVER = program(tmp_path, script)

    assert ids(check_engine(None)) == ["corral.W002"]


def test_an_engine_that_runs_is_nothing_to_speak_of(settings: Settings, tmp_path: Path) -> None:
    settings.CORRAL_LLAMA_SERVER = program(tmp_path, "echo '--ctx-size N   size'")

    assert check_engine(None) == []


def test_a_program_that_is_no_llama_server_is_a_warning(settings: Settings) -> None:
    settings.CORRAL_LLAMA_SERVER = "/bin/true"

    (message,) = check_engine(None)

    assert message.id == "corral.W005"
    assert "--ctx-size" in message.msg


def test_the_engine_is_not_asked_with_options_from_the_environment(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "abc")
    script = "[ -z \"$LLAMA_ARG_CTX_SIZE\" ] && echo '--ctx-size N   size'"
    settings.CORRAL_LLAMA_SERVER = program(tmp_path, script)

    assert check_engine(None) == []


def test_every_id_is_explained() -> None:
    checks = (ROOT / "routerproj").glob("*checks.py")
    used = {each for file in checks for each in re.findall(r"corral\.[EW]\d+", file.read_text())}

    explained = set(re.findall(r"corral\.[EW]\d+", (ROOT / "docs/messages.md").read_text()))

    assert used == explained


def test_a_protocol_that_is_not_spoken_is_a_warning(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")

    settings.CORRAL_TELEMETRY = frozenset()
    assert ids(check_telemetry(None)) == []

    settings.CORRAL_TELEMETRY = frozenset({"traces"})
    assert ids(check_telemetry(None)) == ["corral.W006"]
