"""What a preset adds to its child's environment and does to requests, from row to LaunchSpec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from models_registry.launch import LaunchSpec, effective_options, launch_specs
from models_registry.models import Alias, ModelFile, Preset
from models_registry.request_filters import RequestFilters

from .registry_rows import make_model_file, make_preset, use_stand_in_engine

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _engine(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_stand_in_engine(settings, monkeypatch, tmp_path)


@pytest.fixture
def model_file(tmp_path: Path) -> ModelFile:
    return make_model_file(tmp_path / "a.gguf")


def spec(name: str) -> LaunchSpec:
    [found] = [each for each in launch_specs() if each.preset == name]
    return found


def prints(spec: LaunchSpec) -> tuple[str, str]:
    return spec.fingerprint, spec.memory_fingerprint


def test_the_environment_is_the_bases_with_the_presets_own_above_it(model_file: ModelFile) -> None:
    base = make_preset("base", model_file, environment="OMP_NUM_THREADS=4\nGGML_X=1")
    make_preset("a", model_file, base=base, environment="GGML_X=2")

    assert spec("a").env == {"OMP_NUM_THREADS": "4", "GGML_X": "2"}
    assert spec("base").env == {"OMP_NUM_THREADS": "4", "GGML_X": "1"}


def test_a_changed_variable_is_another_process_and_is_measured_anew(model_file: ModelFile) -> None:
    base = make_preset("base", model_file)
    preset = make_preset("a", model_file, base=base)
    seen = [prints(spec("a"))]
    preset.environment = "GGML_CUDA_ENABLE_UNIFIED_MEMORY=1"
    preset.save()
    seen.append(prints(spec("a")))
    base.environment = "OMP_NUM_THREADS=4"
    base.save()
    seen.append(prints(spec("a")))

    for of_one_kind in zip(*seen, strict=True):
        assert len(set(of_one_kind)) == 3


def test_a_row_with_a_variable_that_no_form_took_is_not_started(model_file: ModelFile) -> None:
    make_preset("a", model_file, environment="LD_PRELOAD=/tmp/x.so")

    assert "LD_PRELOAD is refused" in spec("a").problem
    assert "x.so" not in spec("a").problem


def test_visible_devices_become_the_option_that_names_them(
    model_file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models_registry import launch
    from models_registry.engine_version import Engine

    engine = Engine("1", ("CUDA0: a", "CUDA1: b"))
    monkeypatch.setattr(launch, "engine_version", lambda program: engine)
    preset = make_preset("a", model_file, environment="CUDA_VISIBLE_DEVICES=1\nGGML_X=1")
    make_preset("b", model_file, environment="CUDA_VISIBLE_DEVICES=1", extra_options="dev = CUDA0")
    make_preset("c", model_file, environment="CUDA_VISIBLE_DEVICES=5")

    assert spec("a").env == {"GGML_X": "1"}
    assert spec("a").devices == ("CUDA1",)
    catalogue = launch.engine_catalogue(launch.llama_server())
    shown = {option.key: option for option in effective_options(preset, catalogue)}
    assert (shown["device"].value, shown["device"].where) == ("CUDA1", "the preset's environment")
    monkeypatch.setenv("LLAMA_ARG_DEVICE", "CUDA0")  # for all presets
    assert spec("a").devices == ("CUDA1",)
    monkeypatch.delenv("LLAMA_ARG_DEVICE")
    assert spec("b").devices == ("CUDA0",)
    assert spec("b").env == {}
    assert "there is no device 5: CUDA0, CUDA1" in spec("c").problem


def test_filters_come_from_bases_too_and_from_the_alias_that_was_asked(
    model_file: ModelFile,
) -> None:
    base = make_preset("base", model_file, request_strip="seed", request_set={"top_k": 1, "n": 1})
    preset = make_preset("a", model_file, base=base, request_set={"top_k": 2})
    before = prints(spec("a"))
    Alias.objects.create(name="a:cool", preset=preset, request_set={"temperature": 0})
    preset.request_defaults = {"top_p": 0.5}
    preset.save()

    found = spec("a").filters

    assert found.for_name("a") == RequestFilters(("seed",), {"top_p": 0.5}, {"top_k": 2, "n": 1})
    assert found.for_name("a:cool") == RequestFilters(
        ("seed",), {"top_p": 0.5}, {"top_k": 2, "n": 1, "temperature": 0}
    )
    assert prints(spec("a")) == before


def test_what_cannot_be_started_now_is_filtered_all_the_same(
    model_file: ModelFile, settings: Any
) -> None:
    make_preset("a", model_file, request_strip="seed")
    settings.CORRAL_LLAMA_SERVER = "/nonexistent/llama-server"

    assert spec("a").problem
    assert spec("a").filters.strip == ("seed",)


def test_every_fault_is_told_at_its_field(model_file: ModelFile) -> None:
    preset = Preset(
        name="a",
        model_file=model_file,
        environment="PATH=/tmp",
        request_strip="model",
        request_set={"stream": True},
        request_defaults=[1],
    )

    with pytest.raises(ValidationError) as failure:
        preset.full_clean()

    assert failure.value.message_dict.keys() == {
        "environment",
        "request_strip",
        "request_set",
        "request_defaults",
    }


def test_an_alias_sets_parameters_and_never_the_model(model_file: ModelFile) -> None:
    preset = make_preset("a", model_file)
    Alias(name="fine", preset=preset, request_set={"top_k": 1}).full_clean()

    with pytest.raises(ValidationError) as failure:
        Alias(name="odd", preset=preset, request_set={"model": "b"}).full_clean()

    assert failure.value.message_dict.keys() == {"request_set"}
