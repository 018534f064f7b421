"""Which llama-server runs the models, and what it says it can do."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing, OptionError
from models_registry.options import catalogue, kept_help
from models_registry.options.catalogue import Catalogue, Kind, Option, engine_catalogue
from models_registry.options.command_line import EffectiveOption, Layer, render
from models_registry.options.option_values import checked_value
from models_registry.options.refused_options import refusal

from .registry_rows import stand_in_engine


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_path_is_taken_as_it_is(tmp_path: Path, settings: Any) -> None:
    settings.CORRAL_LLAMA_SERVER = stand_in_engine(tmp_path)

    assert llama_server() == tmp_path / "llama-server"


@pytest.mark.parametrize("name", ["nothing", "not-executable", "folder"])
def test_a_path_that_is_no_program_is_named(tmp_path: Path, settings: Any, name: str) -> None:
    (tmp_path / "not-executable").write_text("")
    (tmp_path / "folder").mkdir()
    settings.CORRAL_LLAMA_SERVER = str(tmp_path / name)

    with pytest.raises(EngineMissing, match=name):
        llama_server()


def test_the_word_path_means_the_one_found_there(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CORRAL_LLAMA_SERVER = "PATH"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineMissing, match="no llama-server on PATH"):
        llama_server()

    stand_in_engine(tmp_path)

    assert llama_server() == tmp_path / "llama-server"


def test_the_wheels_own_is_found_without_loading_its_library(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CORRAL_LLAMA_SERVER = ""
    (tmp_path / "llama_cpp").mkdir()
    (tmp_path / "llama_cpp" / "__init__.py").write_text("raise ImportError('not imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "llama_cpp", raising=False)
    with pytest.raises(EngineMissing, match="without llama-server"):
        llama_server()

    (tmp_path / "bin").mkdir()
    stand_in_engine(tmp_path / "bin")

    assert llama_server() == tmp_path / "bin" / "llama-server"


def test_the_help_is_asked_for_once_for_each_version_of_the_program(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    script = f"echo x >> '{calls}'; echo '--ctx-size N    size of the context (default: 0)'"
    engine = program(tmp_path / "llama-server", script)

    first, second = engine_catalogue(engine), engine_catalogue(engine)
    os.utime(engine, ns=(1, 1))
    engine_catalogue(engine)

    assert first is second
    assert calls.read_text() == "x\nx\n"


def test_the_help_is_asked_for_without_our_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_SECRET_KEY", "canary")
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "5")
    script = f"env > '{tmp_path}/env'; echo '--ctx-size N    size (default: 0)'"

    engine_catalogue(program(tmp_path / "llama-server", script))

    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert "CORRAL_SECRET_KEY" not in names
    assert "LLAMA_ARG_CTX_SIZE" not in names


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'cannot open shared object file' >&2; exit 127", "cannot open shared object"),
        ("exit 3", "failed with 3"),
        ("kill -SEGV $$", "failed with -11"),
        ("echo usage", "not a llama-server"),
    ],
)
def test_a_program_that_is_no_engine_says_why(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(EngineMissing, match=words):
        engine_catalogue(program(tmp_path / "llama-server", script))


def test_a_program_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "llama-server"
    broken.write_bytes(b"\x7fELF broken")
    broken.chmod(0o755)

    with pytest.raises(EngineMissing, match="does not run"):
        engine_catalogue(broken)
    with pytest.raises(EngineMissing, match="cannot be read"):
        engine_catalogue(tmp_path / "nothing")


def _samples(option: Option) -> list[str]:
    return {
        Kind.FLAG: ["true", "false"],
        Kind.INT: [*_a_number(option), *option.choices],
        Kind.FLOAT: ["0.5"],
        Kind.CHOICE: list(option.choices),
    }.get(option.kind, [])


def _a_number(option: Option) -> list[str]:
    """The least of these that we take; none for what is told in another form (cpu-range)."""
    for value in ("1", "2", "64"):
        with contextlib.suppress(OptionError):
            return [checked_value(option, value)]
    return []


def _all_arguments(catalogue: Catalogue) -> list[tuple[str, ...]]:
    return [
        render([EffectiveOption(option.key, value, Layer.PRESET)], catalogue)
        for option in catalogue.options
        if refusal(option) is None and not option.removed
        for value in _samples(option)
    ]


@pytest.mark.engine
@pytest.mark.slow
def test_the_real_engine_takes_every_option_and_choice_that_we_take(settings: Any) -> None:
    settings.CORRAL_LLAMA_SERVER = ""
    engine = llama_server()
    taken = _all_arguments(engine_catalogue(engine))

    refused = [
        argv
        for argv in taken
        if subprocess.run([engine, *argv, "--version"], capture_output=True).returncode != 0
    ]

    assert len(taken) > 200
    assert refused == []


def test_no_second_process_asks_the_engine_what_it_can_do(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CORRAL_VAR = tmp_path / "var"
    real = stand_in_engine(tmp_path)
    engine = program(tmp_path / "engine", f"echo x >> '{tmp_path}/asked'; exec '{real}'")

    def as_another_process() -> list[str]:
        monkeypatch.setattr(catalogue, "_known", {})
        return [option.key for option in engine_catalogue(engine).options]

    first, second = as_another_process(), as_another_process()

    assert first == second
    assert (tmp_path / "asked").read_text() == "x\n"
    program(engine, f"echo x >> '{tmp_path}/asked'; # another version\nexec '{real}'")
    as_another_process()
    assert (tmp_path / "asked").read_text() == "x\nx\n"
    kept = next((tmp_path / "var" / "engine").iterdir())
    kept.write_bytes(b"\xff")
    as_another_process()


def test_what_many_engines_said_is_not_kept_for_ever(tmp_path: Path, settings: Any) -> None:
    settings.CORRAL_VAR = tmp_path / "var"
    for number in range(kept_help.MOST_KEPT + 3):
        kept_help.keep((f"engine {number}", 0, 0), "text")

    assert len(list((tmp_path / "var" / "engine").iterdir())) == kept_help.MOST_KEPT


def test_a_program_that_is_no_engine_is_asked_again(tmp_path: Path, settings: Any) -> None:
    settings.CORRAL_VAR = tmp_path / "var"

    with pytest.raises(EngineMissing, match="not a llama-server"):
        engine_catalogue(program(tmp_path / "engine", "echo usage"))

    assert not (tmp_path / "var").exists()
