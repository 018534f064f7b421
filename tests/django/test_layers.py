"""Which layer an option, and a word of policy, comes from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from models_registry.engine_path import llama_server
from models_registry.errors import OptionError
from models_registry.launch import (
    LaunchSpec,
    effective_options,
    effective_policy_of,
    launch_spec_of,
    launch_specs,
    option_notes,
)
from models_registry.models import GlobalPreset, ModelFile, Preset, Profile, Source
from models_registry.options.catalogue import engine_catalogue
from models_registry.options.command_line import EffectiveOption, Layer
from models_registry.options.inheritance import DEEPEST

from .registry_rows import make_model_file, make_preset, use_stand_in_engine

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _engine(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_stand_in_engine(settings, monkeypatch, tmp_path)


@pytest.fixture
def model_file(tmp_path: Path) -> ModelFile:
    return make_model_file(tmp_path / "a.gguf")


def specs() -> dict[str, LaunchSpec]:
    return {spec.preset: spec for spec in launch_specs()}


def options(preset: Preset) -> dict[str, EffectiveOption]:
    found = effective_options(preset, engine_catalogue(llama_server()))
    return {option.key: option for option in found}


def test_each_layer_is_above_the_one_before_it(
    model_file: ModelFile, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the nine sets top-k; taken away from the top, the next one counts."""
    monkeypatch.setenv("LLAMA_ARG_TOP_K", "1")
    row = GlobalPreset.objects.create(file_options={"top-k": "2"}, options="top-k = 3")
    far = make_preset("far", model_file, file_options={"top-k": "4"}, extra_options="top-k = 5")
    near = make_preset(
        "near", model_file, base=far, file_options={"top-k": "6"}, extra_options="top_k = 7"
    )
    preset = make_preset(
        "a", model_file, base=near, file_options={"top-k": "8"}, extra_options="top-k = 9"
    )
    settings.CORRAL_COMMAND_LINE = {"top-k": "10"}

    def counts() -> tuple[str, str]:
        option = options(Preset.objects.get(pk=preset.pk))["top-k"]
        return option.value, option.where

    assert counts() == ("10", "serve's command line")
    settings.CORRAL_COMMAND_LINE = {}
    assert counts() == ("9", "preset")
    expected = [
        (preset, "extra_options", "", ("8", "presets file")),
        (preset, "file_options", {}, ("7", "base preset near")),
        (near, "extra_options", "", ("6", "base preset near, presets file")),
        (near, "file_options", {}, ("5", "base preset far")),
        (far, "extra_options", "", ("4", "base preset far, presets file")),
        (far, "file_options", {}, ("3", "global preset [*]")),
        (row, "options", "", ("2", "global preset [*], presets file")),
    ]
    for changed, field, nothing, then in expected:
        setattr(changed, field, nothing)
        changed.save()
        assert counts() == then


def test_the_model_file_itself_comes_from_no_other_layer(model_file: ModelFile) -> None:
    preset = make_preset("a", model_file, file_options={"model": "/etc/passwd"})

    with pytest.raises(OptionError, match="refused because"):
        effective_options(preset, engine_catalogue(llama_server()))


def test_policy_comes_from_the_same_layers(model_file: ModelFile) -> None:
    GlobalPreset.objects.create(
        file_options={"max-wait": "5", "load-on-startup": "true"},
        options="keep-alive = -1\nqueue-limit = 3\nthreads = 2",
    )
    base = make_preset("base", model_file, priority="high", pinned=True, max_wait=7.0)
    preset = make_preset(
        "a", model_file, base=base, file_options={"replicas": "2", "pinned": "off"}, queue_limit=9
    )

    policy = effective_policy_of(preset)
    spec = specs()["a"]

    assert (policy.max_wait, policy.said_by["max_wait"].where) == (7.0, "base preset base")
    assert (policy.queue_limit, policy.said_by["queue_limit"].layer) == (9, Layer.PRESET)
    assert (policy.keep_alive, policy.said_by["keep_alive"].where) == (-1, "global preset [*]")
    assert "placement" not in policy.said_by
    assert (spec.priority, spec.replicas, spec.pinned) == ("high", 2, False)
    assert (spec.max_wait_seconds, spec.keep_alive_seconds, spec.load_on_startup) == (7, -1, True)


def test_tags_and_unlisted_say_something_of_one_preset_alone(model_file: ModelFile) -> None:
    base = make_preset("base", model_file, tags="big, chat,big", unlisted=True)
    make_preset("heir", model_file, base=base)
    make_preset("filed", model_file, file_options={"tags": "code", "unlisted": "true"})

    found = specs()

    assert (found["base"].tags, found["base"].unlisted) == (("big", "chat"), True)
    assert (found["heir"].tags, found["heir"].unlisted) == ((), False)
    assert (found["filed"].tags, found["filed"].unlisted) == (("code",), True)


def test_a_pinned_base_keeps_its_heirs_from_sleeping(model_file: ModelFile) -> None:
    base = make_preset("base", model_file, pinned=True)
    heir = make_preset("heir", model_file, base=base, sleep_idle=5)

    assert "--sleep-idle-seconds" not in launch_spec_of(heir).argv


def test_what_is_wrong_in_a_base_is_told_of_its_heirs_and_of_nobody_else(
    model_file: ModelFile,
) -> None:
    base = make_preset("base", model_file, extra_options="host = 0.0.0.0")
    make_preset("heir", model_file, base=base)
    make_preset("other", model_file)

    found = specs()

    assert found["heir"].problem.startswith("an option cannot be taken: base preset base: line 1")
    assert found["other"].problem == ""


def test_a_faulty_global_preset_is_named_in_every_problem(model_file: ModelFile) -> None:
    make_preset("a", model_file)
    GlobalPreset.objects.create(options="ctx-size = many")

    assert "[*]: line 1: ctx-size" in specs()["a"].problem


def test_the_global_preset_is_checked_line_by_line() -> None:
    row = GlobalPreset(options="ctx-size = abc\npriority = urgent\nmodels-max = 1\nkeep-alive = -1")

    with pytest.raises(ValidationError) as caught:
        row.full_clean()

    told = caught.value.message_dict["options"]
    assert [text.split(":")[0] for text in told] == ["line 1", "line 2", "line 3"]
    assert "low, normal, high" in told[1]
    assert "belongs to the router" in told[2]


def test_a_base_cannot_stand_on_itself(model_file: ModelFile) -> None:
    first = make_preset("first", model_file)
    second = make_preset("second", model_file, base=first)
    third = make_preset("third", model_file, base=second)
    first.base = third

    with pytest.raises(
        ValidationError, match="With this base first would stand on itself"
    ) as caught:
        first.full_clean()

    assert list(caught.value.message_dict) == ["base"]
    Preset.objects.filter(pk=first.pk).update(base=third)
    found = specs()
    assert all("stand on itself" in spec.problem for spec in found.values())
    assert "stand on itself" in launch_spec_of(Preset.objects.get(pk=first.pk)).problem


def test_bases_are_as_deep_as_eight_and_no_deeper_from_either_end(model_file: ModelFile) -> None:
    rows = [make_preset("p0", model_file)]
    for number in range(1, DEEPEST + 1):
        rows.append(make_preset(f"p{number}", model_file, base=rows[-1]))
    rows[-1].full_clean()
    assert specs()[f"p{DEEPEST}"].problem == ""

    above = Preset(name="above", model_file=model_file, base=rows[-1])
    with pytest.raises(ValidationError, match="one upon the other"):
        above.full_clean()
    rows[0].base = make_preset("below", model_file)
    with pytest.raises(ValidationError, match="one upon the other"):
        rows[0].full_clean()


def test_a_min_residency_is_held_against_the_max_wait_that_a_base_sets(
    model_file: ModelFile,
) -> None:
    base = make_preset("base", model_file, max_wait=3.0)

    with pytest.raises(ValidationError, match="more than max wait, 3"):
        Preset(name="a", model_file=model_file, base=base, min_residency=4.0).full_clean()


def test_presets_that_are_only_in_profiles_that_are_off_are_not_offered(
    model_file: ModelFile,
) -> None:
    always, off, both = (make_preset(name, model_file) for name in ("always", "off", "both"))
    make_preset("heir", model_file, base=off, extra_options="top-k = 1")
    night = Profile.objects.create(name="night", active=False)
    night.presets.set([off, both])
    Profile.objects.create(name="day", active=True).presets.set([both])

    assert set(specs()) == {always.name, "both", "heir"}
    night.active = True
    night.save()
    assert set(specs()) == {"always", "both", "heir", "off"}


def test_a_cache_entry_whose_file_another_preset_runs_is_hidden_when_that_is_asked(
    tmp_path: Path, model_file: ModelFile
) -> None:
    (tmp_path / "link.gguf").symlink_to(tmp_path / "a.gguf")
    linked = ModelFile.objects.create(path=str(tmp_path / "link.gguf"), source=Source.CACHE)
    make_preset("cached", linked, source=Source.CACHE)
    make_preset("cached too", linked, source=Source.CACHE)
    make_preset("patched", linked, source=Source.CACHE, file_options={"top-k": "1"})
    mine = make_preset("mine", model_file)

    assert not any(spec.hidden for spec in launch_specs())
    mine.extra_options = "dedup-cache-models = true"
    mine.full_clean()
    mine.save()
    assert [name for name, spec in specs().items() if spec.hidden] == ["cached", "cached too"]
    assert specs()["cached"].problem == ""


def test_cache_entries_never_hide_one_another(tmp_path: Path) -> None:
    cached = make_model_file(tmp_path / "c.gguf", source=Source.CACHE)
    make_preset("one", cached, source=Source.CACHE)
    make_preset("two", cached, source=Source.CACHE)
    GlobalPreset.objects.create(options="dedup-cache-models = true")

    assert not any(spec.hidden for spec in launch_specs())


@pytest.mark.parametrize(
    ("lines", "arguments"),
    [
        ("mmap = 1", "--load-mode mmap"),
        ("no-mmap = true", "--load-mode none"),
        ("mlock = on", "--load-mode mmap+mlock"),
        ("mmap = 0\nmlock = 1", "--load-mode mlock"),
        ("direct-io = true\nmmap = true", "--load-mode dio"),
        ("mlock = false", ""),
        ("draft-max = 8", "--spec-draft-n-max 8"),
    ],
)
def test_options_of_older_engines_are_translated_with_a_note(
    model_file: ModelFile, lines: str, arguments: str
) -> None:
    preset = make_preset("a", model_file, extra_options=lines)
    preset.full_clean()

    assert arguments in " ".join(specs()["a"].argv)
    assert "load-mode" in arguments or "--load-mode" not in specs()["a"].argv
    notes = option_notes(preset, engine_catalogue(llama_server()))
    assert len(notes) == bool(arguments)


def test_an_old_switch_beside_its_successor_is_refused(model_file: ModelFile) -> None:
    preset = Preset(name="a", model_file=model_file, extra_options="mmap = 1\nload-mode = none")

    with pytest.raises(ValidationError, match="is set in a line of its own as well"):
        preset.full_clean()


def test_a_thousand_presets_are_read_quickly_enough_for_every_look(tmp_path: Path) -> None:
    """The scheduler reads them all after each change. Processor time, with slack for slow CI."""
    rows = [ModelFile(path=str(tmp_path / f"{n}.gguf")) for n in range(1000)]
    files = ModelFile.objects.bulk_create(rows)
    GlobalPreset.objects.create(options="threads = 2\npriority = high")
    base = make_preset("base", files[0], extra_options="temp = 0.5\nno-warmup = true")
    Preset.objects.bulk_create(
        Preset(
            name=f"p{number}",
            model_file=file,
            base=base,
            ctx_size=4096,
            file_options={"top-k": "5", "batch-size": "512"},
            extra_options="top-p = 0.9\nchat-template = chatml",
        )
        for number, file in enumerate(files)
    )
    launch_specs()
    before = time.process_time()

    assert len(launch_specs()) == 1001

    assert time.process_time() - before < 1.5


def test_an_heir_takes_back_what_its_base_says(model_file: ModelFile) -> None:
    base = make_preset("base", model_file, pinned=True, priority="high")
    heir = Preset(
        name="heir",
        model_file=model_file,
        base=base,
        extra_options="pinned = false\npriority = normal",
    )
    heir.full_clean()
    heir.save()

    assert (specs()["heir"].pinned, specs()["heir"].priority) == (False, "normal")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("pinned = true", "set the preset's own field: Pinned"),
        ("keep-alive = 5", "set the preset's own field: Keep alive"),
        ("replicas = 1", "the field Replicas is set as well"),
        ("tags = a", "the field Tags is set as well"),
    ],
)
def test_what_has_a_field_is_set_there(model_file: ModelFile, lines: str, words: str) -> None:
    preset = Preset(name="a", model_file=model_file, replicas=2, tags="b", extra_options=lines)

    with pytest.raises(ValidationError, match=words):
        preset.full_clean()


@pytest.mark.parametrize(
    ("draft", "kind"),
    [
        ("small.gguf", "draft-simple"),
        ("mtp-a.gguf", "draft-mtp"),
        ("EAGLE3-a.gguf", "draft-eagle3"),
    ],
)
def test_the_engine_is_told_how_a_draft_model_guesses(
    tmp_path: Path, draft: str, kind: str
) -> None:
    row = make_model_file(tmp_path / "a.gguf", draft=str(tmp_path / draft))
    preset = make_preset("a", row)

    assert options(preset)["spec-type"] == EffectiveOption("spec-type", kind, Layer.MODEL_FILE)
    preset.extra_options = "spec-type = none"
    assert options(preset)["spec-type"].value == "none"
