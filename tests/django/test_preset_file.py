"""The presets file of --models-preset: what it changes in the registry, and what it does not."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from models_registry import watching
from models_registry.errors import ImportRefused
from models_registry.ini import file_rows, preset_file
from models_registry.ini.file_rows import PresetsReport
from models_registry.launch import launch_specs
from models_registry.model_paths import FilesState, files_state
from models_registry.models import Alias, GlobalPreset, ModelFile, Preset, Profile, Source
from models_registry.revision import registry_revision
from models_registry.tasks import rescan_sources

from .registry_rows import gguf, make_model_file, make_preset, use_stand_in_engine

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def file(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    settings.CORRAL_MODELS_PRESET = str(tmp_path / "models.ini")
    settings.CORRAL_MODELS_DIR = settings.CORRAL_OLLAMA_MODELS = ""
    settings.CORRAL_HF_CACHE = "0"
    gguf(tmp_path / "a.gguf")
    return tmp_path / "models.ini"


def take(file: Path, text: str) -> PresetsReport:
    file.write_text(text)
    return preset_file.apply(preset_file.read(file))


def test_sections_become_presets_with_files_options_policy_and_names(file: Path) -> None:
    report = take(
        file,
        "[*]\nthreads = 2\n[mine]\nmodel = a.gguf\nmmproj = b.gguf\nc = 512\nalias = x, y\n"
        "load-on-startup = 1\n# corral: priority = high\n",
    )

    assert report.added == ["mine"]
    (spec,) = launch_specs()
    assert spec.aliases == ("x", "y")
    assert (spec.load_on_startup, spec.priority) == (True, "high")
    assert ModelFile.objects.get().path == str(file.parent / "a.gguf")
    assert ModelFile.objects.get().mmproj == str(file.parent / "b.gguf")
    assert Preset.objects.get().source == Source.PRESET_FILE
    assert "b.gguf" in spec.problem  # which is not there
    gguf(file.parent / "b.gguf")
    (spec,) = launch_specs()
    assert spec.problem == ""
    assert "--threads 2" in " ".join(spec.argv)
    assert "--ctx-size 512" in " ".join(spec.argv)


def test_a_file_that_says_the_same_changes_nothing(file: Path) -> None:
    text = "[*]\nthreads = 2\n[mine]\nmodel = a.gguf\nmmproj = b.gguf\nalias = x\nc = 512\n"
    take(file, text)
    before = registry_revision()

    assert not take(file, text).changes
    assert registry_revision() == before


def test_only_what_changed_is_saved(file: Path) -> None:
    take(file, "[a]\nm = a.gguf\nc = 16\n[b]\nm = a.gguf\nc = 16\n")

    report = take(file, "[a]\nm = a.gguf\nc = 16\n[b]\nm = a.gguf\nc = 2\n")

    assert (report.added, report.changed, report.removed) == ([], ["b"], [])
    assert [preset.version for preset in Preset.objects.all()] == [1, 2]


def test_a_section_patches_what_was_found_or_made_under_its_name(file: Path) -> None:
    row = ModelFile.objects.create(path=str(file.parent / "a.gguf"), source=Source.MODELS_DIR)
    make_preset("found", row, source=Source.MODELS_DIR)
    make_preset("made", row, ctx_size=7)

    report = take(file, "[found]\nc = 16\n[made]\nc = 16\nthreads = 3\n")

    assert report.changed == ["found", "made"]
    by_name = {spec.preset: " ".join(spec.argv) for spec in launch_specs()}
    assert "--ctx-size 16" in by_name["found"]
    assert "--ctx-size 7" in by_name["made"]
    assert "--threads 3" in by_name["made"]
    take(file, "")
    assert [preset.file_options for preset in Preset.objects.all()] == [{}, {}]


def test_what_sources_say_of_a_preset_stays_below_what_the_file_says(file: Path) -> None:
    make_preset("o", make_model_file(file.parent / "o.gguf"), source=Source.OLLAMA)
    file.write_text("[o]\nc = 16\n")

    preset_file.apply(preset_file.read(file), {"o": {"ctx-size": "9", "top-k": "3"}})
    assert Preset.objects.get().file_options == {"ctx-size": "16", "top-k": "3"}
    file.write_text("")
    preset_file.apply(preset_file.read(file), {"o": {"ctx-size": "9", "top-k": "3"}})
    assert Preset.objects.get().file_options == {"ctx-size": "9", "top-k": "3"}


def test_presets_that_only_the_file_defined_go_with_their_sections(file: Path) -> None:
    take(file, "[a]\nm = a.gguf\nalias = x\n[b]\nm = a.gguf\n[c]\nm = a.gguf\n[d]\nm = a.gguf\n")
    Preset.objects.filter(name="b").update(ctx_size=5)
    heir = make_preset("heir", ModelFile.objects.get(), base=Preset.objects.get(name="c"))

    report = take(file, "[d]\nm = a.gguf\n")

    assert report.removed == ["a"]
    assert set(Preset.objects.values_list("name", "source")) == {
        ("b", Source.ADMIN),
        ("c", Source.ADMIN),
        ("d", Source.PRESET_FILE),
        (heir.name, Source.ADMIN),
    }
    assert "b is no longer in the file; kept: someone has set" in report.conflicts[0]
    assert "c is no longer in the file; kept: other presets" in report.conflicts[1]
    assert not Alias.objects.exists()


def test_model_files_that_nobody_runs_any_more_go_with_the_last_section(file: Path) -> None:
    take(file, "[a]\nm = a.gguf\n")
    take(file, "")

    assert not Preset.objects.exists()
    assert not ModelFile.objects.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a]\nc = 16\n", "line 1: [a] names no model: write `model = /path"),
        ("c = 16\n", "line 1: [default] names no model"),
        ("[a]\nhf = u/r:Q4_0\n", "is not downloaded: u/r:Q4_0. Fetch it"),
        ("[taken]\nm = a.gguf\n", "taken is an alias of old: rename the section"),
        ("[old]\nm = a.gguf\n", "old runs"),
    ],
)
def test_a_conflict_is_told_by_its_name_and_the_rest_goes_on(
    file: Path, text: str, words: str
) -> None:
    old = make_preset("old", make_model_file(file.parent / "old.gguf"))
    Alias.objects.create(name="taken", preset=old)

    report = take(file, f"{text}[good]\nm = a.gguf\n")

    assert report.added == ["good"]
    (conflict,) = report.conflicts
    assert words in conflict
    assert set(Preset.objects.values_list("name", flat=True)) == {"old", "good"}


def test_an_alias_that_is_taken_is_told_and_no_one_is_shadowed(file: Path) -> None:
    old = make_preset("old", make_model_file(file.parent / "old.gguf"))
    Alias.objects.create(name="x", preset=old)

    report = take(file, "[a]\nm = a.gguf\nalias = x, old, y, z\n[b]\nm = a.gguf\nalias = y\n")

    assert [text.split("the alias ")[1] for text in report.conflicts] == [
        "x is an alias of old",
        "old is the name of a preset",
        "y is also an alias of b",
    ]
    assert {each.name: each.preset.name for each in Alias.objects.all()} == {
        "x": "old",
        "y": "b",
        "z": "a",
    }


def test_an_alias_becomes_a_section_and_a_section_an_alias(file: Path) -> None:
    take(file, "[a]\nm = a.gguf\nalias = b\n")
    report = take(file, "[a]\nm = a.gguf\n[b]\nm = a.gguf\n")
    assert (report.added, report.conflicts) == (["b"], [])

    report = take(file, "[a]\nm = a.gguf\nalias = b\n")
    assert (report.removed, report.conflicts) == (["b"], [])
    assert Alias.objects.get().preset.name == "a"


def test_a_repository_is_the_file_that_the_cache_has_of_it(file: Path) -> None:
    hub = file.parent / "models--u--r" / "snapshots" / ("0" * 40)
    for name in ("m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-IQ2_M.gguf"):
        make_model_file(hub / name, source=Source.CACHE)

    take(
        file,
        "[tag]\nhf = u/r:q8_0\n[none]\nhf-repo = u/r\n[file]\nhf = u/r\nhf-file = m-IQ2_M.gguf\n",
    )

    runs = dict(Preset.objects.values_list("name", "model_file__path"))
    assert {name: Path(path).name for name, path in runs.items()} == {
        "tag": "m-Q8_0.gguf",
        "none": "m-Q4_K_M.gguf",
        "file": "m-IQ2_M.gguf",
    }


def test_two_sections_of_one_file_cannot_give_it_two_projectors(file: Path) -> None:
    text = "[a]\nm = a.gguf\nmmproj = x.gguf\n[b]\nm = a.gguf\nmmproj = y.gguf\n"

    first, second = take(file, text), take(file, text)

    assert "y.gguf is not taken" in first.conflicts[0]
    assert not second.changes
    assert ModelFile.objects.get().mmproj.endswith("x.gguf")


def test_a_section_that_names_another_file_turns_its_preset_to_it(file: Path) -> None:
    gguf(file.parent / "b.gguf")
    take(file, "[a]\nm = a.gguf\n")

    report = take(file, "[a]\nm = b.gguf\n")

    assert report.changed == ["a"]
    assert ModelFile.objects.get().path.endswith("b.gguf")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[a]\nc = abc\nx-y = 1\n", "models.ini: line 3"),
        (b"[a\n", "line 1, column 1"),
        (b"\xff", "is not UTF-8"),
        (b"[" + b"n" * 300 + b"]\n", "at most 200 characters"),
        (b"[a]\nc = \x00\n", "control character"),
    ],
)
def test_a_faulty_file_changes_nothing(file: Path, data: bytes, words: str) -> None:
    take(file, "[mine]\nm = a.gguf\nc = 5\n")
    before = registry_revision()
    file.write_bytes(data)

    with pytest.raises(ImportRefused) as caught:
        preset_file.read(file)
    report = rescan_sources()

    assert words in str(caught.value)
    assert words in report.presets_fault
    assert registry_revision() == before
    assert Preset.objects.get().file_options == {"ctx-size": "5"}


def test_a_file_that_is_away_changes_nothing(file: Path) -> None:
    take(file, "[mine]\nm = a.gguf\n")
    file.unlink()

    assert "cannot be read: No such file" in rescan_sources().presets_fault
    assert Preset.objects.exists()


def test_unknown_keys_are_warnings_when_that_is_asked(file: Path, settings: Any) -> None:
    settings.CORRAL_MODELS_PRESET_IGNORE_UNKNOWN = True

    report = take(file, "[a]\nm = a.gguf\nx-y = 1\n")

    assert report.added == ["a"]
    assert "line 3, column 1: x-y: llama-server has no such option" in report.warnings[0]


def test_a_rescan_reads_it_after_the_sources(file: Path, settings: Any) -> None:
    settings.CORRAL_MODELS_DIR = str(file.parent / "models")
    gguf(file.parent / "models" / "found.gguf")
    file.write_text("[found]\nc = 5\n[mine]\nm = a.gguf\n")

    report = rescan_sources()

    assert report.presets_file is not None
    assert (report.presets_file.added, report.presets_file.changed) == (["mine"], ["found"])
    assert "presets file: 1 new, 1 changed" in report.lines()
    assert not rescan_sources().changed


def test_a_hundred_sections_cost_few_queries_and_none_while_nobody_else_may_write(
    file: Path, django_assert_max_num_queries: Any
) -> None:
    for number in range(100):
        gguf(file.parent / f"{number}.gguf")
    text = "".join(
        f"[p{number}]\nm = {number}.gguf\nc = 5\nalias = q{number}\n" for number in range(100)
    )

    with django_assert_max_num_queries(48):
        assert len(take(file, text).added) == 100
    with django_assert_max_num_queries(48):
        assert len(take(file, text.replace("c = 5", "c = 6")).changed) == 100
    with django_assert_max_num_queries(12) as nothing:
        assert not take(file, text.replace("c = 5", "c = 6")).changes
    assert not any("SAVEPOINT" in query["sql"] for query in nothing.captured_queries)
    with django_assert_max_num_queries(48):
        assert len(take(file, "").removed) == 100


def test_every_row_that_the_file_makes_changes_or_takes_away_has_its_version(file: Path) -> None:
    text = "[a]\nm = a.gguf\nc = 5\nalias = x\n"
    for each in (text, text.replace("c = 5", "c = 6"), ""):
        take(file, each)

    histories: dict[Any, list[str]] = {
        Preset: ["+", "~", "-"], ModelFile: ["+", "-"], Alias: ["+", "-"]
    }  # fmt: skip
    for model, kinds in histories.items():
        records = list(model.history.order_by("history_id"))
        assert [record.history_type for record in records] == kinds
        assert records[0].history_change_reason == "the presets file"
        assert records[0].history_date is not None
    first, second, last = Preset.history.order_by("history_id")
    assert (first.file_options, second.file_options) == ({"ctx-size": "5"}, {"ctx-size": "6"})
    assert (first.version, second.version, last.name) == (1, 2, "a")


def test_somebody_who_saves_while_the_file_is_looked_at_is_not_written_over(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(file, "[a]\nm = a.gguf\nc = 16\n")
    looks = []

    def look(path: str) -> FilesState:
        looks.append(path)
        if len(looks) == 1:  # an admin gives the new name to another model meanwhile
            make_preset("b", ModelFile.objects.get())
        return files_state(path)

    monkeypatch.setattr(file_rows, "files_state", look)
    gguf(file.parent / "b.gguf")

    report = take(file, "[a]\nm = a.gguf\nc = 16\n[b]\nm = b.gguf\n")

    assert "b runs" in report.conflicts[0]
    assert Preset.objects.get(name="b").source == Source.ADMIN


def test_what_a_person_set_is_never_touched(file: Path) -> None:
    take(file, "[a]\nm = a.gguf\nc = 16\nthreads = 1\n")
    preset = Preset.objects.get()
    preset.ctx_size, preset.extra_options = 9, "top-k = 3"
    preset.save()
    GlobalPreset.objects.create(options="threads = 8")

    take(file, "[*]\nthreads = 4\n[a]\nm = a.gguf\nc = 2\ntop-k = 1\n")

    preset.refresh_from_db()
    assert (preset.ctx_size, preset.extra_options) == (9, "top-k = 3")
    assert GlobalPreset.objects.get().options == "threads = 8"
    argv = " ".join(launch_specs()[0].argv)
    assert "--ctx-size 9" in argv
    assert "--top-k 3" in argv
    assert "--threads 8" in argv


def test_the_watch_reads_a_file_once_it_has_settled_and_once_only(file: Path) -> None:
    watch = watching.PresetsFileWatch(file)
    assert not watch.has_changed()
    file.write_text("[a]\n")
    assert not watch.has_changed()
    assert watch.has_changed()
    watch.was_read()
    assert not watch.has_changed()
    file.write_text("[a]\nm = a.gguf\n")
    assert not watch.has_changed()
    assert watch.has_changed()
    watch.was_read()
    file.unlink()
    assert not watch.has_changed()
    assert not watch.has_changed()


def test_a_bad_edit_is_said_with_its_line(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    file.write_text("[a]\nm = a.gguf\nctx-sze = 1\n")

    seen = watching.look(None)
    watching.look(seen)

    told = [record.message for record in caplog.records if "line 3" in record.message]
    assert len(told) == 1
    assert "did you mean ctx-size?" in told[0]


def test_what_somebody_has_named_or_put_in_a_profile_stays_when_its_section_is_gone(
    file: Path,
) -> None:
    take(
        file, "[named]\nmodel = a.gguf\nalias = x\n[switched]\nmodel = a.gguf\n[gone]\nm = a.gguf\n"
    )
    Alias.objects.create(name="by-hand", preset=Preset.objects.get(name="named"))
    Profile.objects.create(name="night").presets.add(Preset.objects.get(name="switched"))

    report = take(file, "[other]\nmodel = a.gguf\n")

    assert report.removed == ["gone"]
    kept = Preset.objects.filter(source=Source.ADMIN)
    assert sorted(preset.name for preset in kept) == ["named", "switched"]
    assert [alias.name for alias in Alias.objects.all()] == ["by-hand"]
    assert [preset.name for preset in Profile.objects.get().presets.all()] == ["switched"]
    told = " ".join(report.conflicts)
    assert "given it an alias" in told
    assert "in a profile" in told


def test_a_pipe_in_its_place_is_not_waited_for(file: Path) -> None:
    os.mkfifo(file)

    with pytest.raises(ImportRefused, match="is no file"):
        preset_file.read(file)
