"""What the scheduler is told to start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models_registry.groups import GroupRules
from models_registry.launch import LaunchSpec, launch_specs, registry_revision
from models_registry.models import Alias, GlobalPreset, Group, Profile

from .registry_rows import gguf, make_model_file, make_preset, use_stand_in_engine

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _engine(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_stand_in_engine(settings, monkeypatch, tmp_path)


def specs() -> dict[str, LaunchSpec]:
    return {spec.preset: spec for spec in launch_specs()}


def test_a_preset_becomes_the_arguments_of_its_columns_and_lines(tmp_path: Path) -> None:
    model_file = make_model_file(tmp_path / "a.gguf", mmproj=str(gguf(tmp_path / "mmproj.gguf")))
    preset = make_preset(
        "a",
        model_file,
        ctx_size=4096,
        parallel=2,
        embeddings=False,
        extra_options="# a remark\n--no-warmup = true\n\ntemp = 0.5 # not a remark",
        pinned=True,
        load_on_startup=True,
        stop_timeout=2.5,
    )
    preset.extra_options = preset.extra_options.replace(" # not a remark", "")
    preset.save()
    Alias.objects.create(name="z", preset=preset)

    spec = specs()["a"]

    assert spec.problem == ""
    assert spec.argv == (
        "--model",
        str(tmp_path / "a.gguf"),
        "--cache-ram",
        "512",
        "--ctx-size",
        "4096",
        "--mmproj",
        str(tmp_path / "mmproj.gguf"),
        "--parallel",
        "2",
        "--swa-checkpoints",
        "4",
        "--temperature",
        "0.5",
        "--no-warmup",
    )
    assert (spec.aliases, spec.parallel, spec.stop_timeout_seconds) == (("z",), 2, 2.5)
    assert (spec.pinned, spec.load_on_startup) == (True, True)


def test_unset_slots_are_made_explicit(tmp_path: Path) -> None:
    make_preset("a", make_model_file(tmp_path / "a.gguf"))

    spec = specs()["a"]

    assert spec.argv[4:7] == ("--kv-unified", "--parallel", "4")
    assert spec.parallel == 4


def test_the_command_line_is_above_every_preset_and_the_environment_below(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_file = make_model_file(tmp_path / "a.gguf")
    make_preset("a", model_file, ctx_size=1000, parallel=1)
    make_preset("b", model_file, parallel=1)
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "500")
    monkeypatch.setenv("LLAMA_ARG_THREADS", "3")
    settings.CORRAL_COMMAND_LINE = json.loads('{"n-gpu-layers": "99"}')

    below = specs()
    settings.CORRAL_COMMAND_LINE = {"ctx-size": "2000", "n-gpu-layers": "99"}
    above = specs()

    assert below["a"].argv[4:6] == ("--ctx-size", "1000")
    assert below["b"].argv[4:6] == ("--ctx-size", "500")
    assert above["a"].argv[4:6] == above["b"].argv[4:6] == ("--ctx-size", "2000")
    assert above["b"].argv[6:10] == ("--n-gpu-layers", "99", "--parallel", "1")
    assert above["b"].argv[-2:] == ("--threads", "3")


def test_the_fingerprint_changes_with_the_options_and_with_the_file(tmp_path: Path) -> None:
    preset = make_preset("a", make_model_file(tmp_path / "a.gguf"))
    first = specs()["a"].fingerprint

    assert specs()["a"].fingerprint == first
    preset.pinned = True
    preset.save()
    assert specs()["a"].fingerprint == first
    preset.ctx_size = 16
    preset.save()
    second = specs()["a"].fingerprint
    gguf(tmp_path / "a.gguf", size=8)
    third = specs()["a"].fingerprint
    assert len({first, second, third}) == 3


def test_a_bad_stored_option_is_a_problem_of_its_preset_alone(tmp_path: Path) -> None:
    model_file = make_model_file(tmp_path / "a.gguf")
    make_preset("bad", model_file, extra_options="host = 0.0.0.0")
    make_preset("worse", model_file, extra_options="ctx-size = \x00")
    make_preset("good", model_file)

    found = specs()

    assert "host" in found["bad"].problem
    assert found["bad"].argv == ()
    assert found["worse"].problem != ""
    assert found["good"].problem == ""


def test_a_missing_file_is_a_problem_with_its_path(tmp_path: Path) -> None:
    make_preset("a", make_model_file(tmp_path / "a.gguf"))
    (tmp_path / "a.gguf").unlink()

    assert str(tmp_path / "a.gguf") in specs()["a"].problem


def test_a_missing_shard_is_a_problem(tmp_path: Path) -> None:
    make_preset("a", make_model_file(tmp_path / "a-00001-of-00002.gguf"))

    assert "a-00002-of-00002.gguf" in specs()["a"].problem
    gguf(tmp_path / "a-00002-of-00002.gguf")
    assert specs()["a"].problem == ""


def test_without_an_engine_every_preset_says_what_to_do(tmp_path: Path, settings: Any) -> None:
    make_preset("a", make_model_file(tmp_path / "a.gguf"))
    settings.CORRAL_LLAMA_SERVER = str(tmp_path / "nothing")

    assert "CORRAL_LLAMA_SERVER" in specs()["a"].problem


def test_an_engine_that_is_no_server_is_named(tmp_path: Path, settings: Any) -> None:
    make_preset("a", make_model_file(tmp_path / "a.gguf"))
    settings.CORRAL_LLAMA_SERVER = "/bin/true"

    assert "not a llama-server" in specs()["a"].problem


def test_an_alias_never_shadows_a_preset(tmp_path: Path) -> None:
    model_file = make_model_file(tmp_path / "a.gguf")
    Alias.objects.create(name="b", preset=make_preset("a", model_file))
    make_preset("b", model_file)

    assert specs()["a"].aliases == ()


def test_five_queries_read_the_whole_registry(
    tmp_path: Path, django_assert_num_queries: Any
) -> None:
    base = make_preset("base", make_model_file(tmp_path / "base.gguf"))
    GlobalPreset.objects.create(options="threads = 2")
    for number in range(10):
        model_file = make_model_file(tmp_path / f"{number}.gguf")
        preset = make_preset(f"p{number}", model_file, base=base)
        Profile.objects.create(name=f"r{number}").presets.add(preset)
        Alias.objects.create(name=f"q{number}", preset=preset)

    with django_assert_num_queries(5):  # presets, aliases, profiles, [*], unreadable files
        assert len(launch_specs()) == 11


def test_the_rules_of_its_group_are_told_and_an_edit_of_them_raises_the_revision(
    tmp_path: Path,
) -> None:
    preset = make_preset("a", make_model_file(tmp_path / "a.gguf"))
    group = Group.objects.create(name="big", exclusive=True)
    preset.group = group
    preset.save()
    assert specs()["a"].group == GroupRules("big", exclusive=True)
    before = registry_revision()

    group.one_at_a_time = True
    group.save()

    assert registry_revision() > before
    assert specs()["a"].group == GroupRules("big", one_at_a_time=True, exclusive=True)
