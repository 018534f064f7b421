"""`serve -hf` and `-mu`: what is there is loaded, what is not is fetched, nonsense is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models_registry.models import Alias, Download, ModelFile, Preset
from routerproj.serve.fetching import offer_or_fetch, wanted
from routerproj.serve.options import BadOption, ServeOptions, parse

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(settings: Any, tmp_path: Path) -> None:
    settings.CORRAL_VAR = tmp_path


@pytest.mark.parametrize(
    ("tokens", "meant"),
    [
        ([], ("", "")),
        (["-hf", "team/m:Q8_0"], ("hub", "team/m:Q8_0")),
        (["--hf-repo=team/m", "-hff", "a/m-F16.gguf"], ("hub", "team/m:a/m-F16.gguf")),
        (["-mu", "https://h/m.gguf"], ("url", "https://h/m.gguf")),
    ],
)
def test_the_command_line_names_one_model(tokens: list[str], meant: tuple[str, str]) -> None:
    assert wanted(parse(tokens, ServeOptions())) == meant


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["-hf", "nonsense"], "-hf nonsense: invalid HF repo format"),
        (["-mu", "nonsense"], "-mu nonsense: "),
        (["-hff", "m.gguf"], "name the repository with -hf"),
        (["-hf", "team/m", "-m", "m.gguf"], "name one model"),
        (["-hf", "team/m", "-mu", "https://h/m.gguf"], "name one model"),
    ],
)
def test_what_names_none_or_two_is_refused(tokens: list[str], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        wanted(parse(tokens, ServeOptions()))


@pytest.mark.parametrize("target", ["team/m", "team/m:q8_0"])
def test_what_is_there_is_loaded_at_once(target: str, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    file = ModelFile.objects.create(path=str(tmp_path / "m.gguf"))
    preset = Preset.objects.create(name="team/m:Q8_0", model_file=file)
    Alias.objects.create(name="team/m", preset=preset)

    assert offer_or_fetch("hub", target)[1] == "team/m:Q8_0"
    assert not Download.objects.exists()


def test_what_has_vanished_is_fetched_again(tmp_path: Path) -> None:
    file = ModelFile.objects.create(path=str(tmp_path / "gone.gguf"))
    Preset.objects.create(name="team/m:Q8_0", model_file=file)

    assert offer_or_fetch("hub", "team/m:Q8_0")[1] == ""
    assert Download.objects.get().load


def test_what_an_earlier_start_began_goes_on(tmp_path: Path) -> None:
    Download.objects.create(target="team/m", state="paused", wanted="paused")

    line, load = offer_or_fetch("hub", "team/m")

    row = Download.objects.get()
    assert (load, row.load, row.state) == ("", True, "queued")
    assert f"download {row.pk}" in line
