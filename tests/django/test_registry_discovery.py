"""What a rescan of the models folder does."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from models_registry.models import Alias, ModelFile, Preset, Source
from models_registry.revision import registry_revision
from models_registry.sources.discovery import Report, rescan
from models_registry.sources.reading import Places

from .registry_rows import gguf, make_model_file, make_preset

pytestmark = pytest.mark.django_db


def scan(models_dir: Path) -> Report:
    return rescan(Places(models_dir=models_dir))


def names() -> dict[str, str]:
    """Preset name to its file's name."""
    return {p.name: Path(p.model_file.path).name for p in Preset.objects.all()}


def test_a_file_at_the_top_is_a_model_of_its_name(tmp_path: Path) -> None:
    gguf(tmp_path / "small.gguf", size=10)
    gguf(tmp_path / "weird.gguf.gguf")
    gguf(tmp_path / "notes.txt")
    gguf(tmp_path / "UPPER.GGUF")

    report = scan(tmp_path)

    assert names() == {"small": "small.gguf", "weird": "weird.gguf.gguf"}
    assert report.added == ["small", "weird"]
    found = ModelFile.objects.get(path=str(tmp_path / "small.gguf"))
    assert (found.size, found.source) == (10, Source.MODELS_DIR)


def test_companions_are_no_models(tmp_path: Path) -> None:
    for name in ("mmproj-a.gguf", "a.mmproj.gguf", "mtp-a.gguf", "eagle3-a.gguf", "dflash-a.gguf"):
        gguf(tmp_path / name)

    assert scan(tmp_path).found == {"models_dir": 0}


def test_a_folder_is_a_model_of_its_name_with_its_projector(tmp_path: Path) -> None:
    gguf(tmp_path / "vision" / "model-Q8_0.gguf")
    gguf(tmp_path / "vision" / "mmproj-BF16.gguf")
    gguf(tmp_path / "vision" / "mmproj-F16.gguf")
    gguf(tmp_path / "vision" / "mtp-model.gguf")
    gguf(tmp_path / "vision" / "deeper" / "no.gguf")
    (tmp_path / "empty").mkdir()

    scan(tmp_path)

    assert names() == {"vision": "model-Q8_0.gguf", "vision/deeper": "no.gguf"}
    found = Preset.objects.get(name="vision").model_file
    assert found.mmproj == str(tmp_path / "vision" / "mmproj-F16.gguf")
    assert found.draft == str(tmp_path / "vision" / "mtp-model.gguf")


def test_shards_are_one_model_with_the_bytes_of_all(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        gguf(tmp_path / f"top-0000{number}-of-00003.gguf", size=10)
        gguf(tmp_path / "inside" / f"x-0000{number}-of-00003.gguf", size=20)

    scan(tmp_path)

    assert names() == {
        "top": "top-00001-of-00003.gguf",
        "inside": "x-00001-of-00003.gguf",
    }
    assert sorted(ModelFile.objects.values_list("size", flat=True)) == [30, 60]


def test_files_of_more_shards_than_any_model_has_are_reported_once(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        gguf(tmp_path / f"big-0000{number}-of-99999.gguf")

    report = scan(tmp_path)

    assert report.added == []
    (problem,) = report.problems
    assert "big-00001-of-99999.gguf" in problem
    assert "99999 shards" in problem


def test_shards_without_their_first_are_reported(tmp_path: Path) -> None:
    gguf(tmp_path / "a-00002-of-00002.gguf")

    report = scan(tmp_path)

    assert names() == {}
    assert "a-00001-of-00002.gguf" in report.problems[0]


def test_several_quants_in_a_folder_are_a_model_each(tmp_path: Path) -> None:
    for tag in ("Q8_0", "Q4_K_M", "f16"):
        gguf(tmp_path / "gemma" / f"gemma-3-{tag}.gguf")
    gguf(tmp_path / "gemma" / "mmproj.gguf")

    scan(tmp_path)

    assert names() == {
        "gemma:F16": "gemma-3-f16.gguf",
        "gemma:Q4_K_M": "gemma-3-Q4_K_M.gguf",
        "gemma:Q8_0": "gemma-3-Q8_0.gguf",
    }
    assert Alias.objects.get().name == "gemma"
    assert Alias.objects.get().preset.name == "gemma:Q4_K_M"
    assert set(ModelFile.objects.values_list("mmproj", flat=True)) == {
        str(tmp_path / "gemma" / "mmproj.gguf")
    }


def test_models_of_a_folder_with_the_same_tag_are_told_apart_by_file(tmp_path: Path) -> None:
    gguf(tmp_path / "mix" / "one-Q8_0.gguf")
    gguf(tmp_path / "mix" / "two-Q8_0.gguf")

    scan(tmp_path)

    assert set(names()) == {"mix/one-Q8_0", "mix/two-Q8_0"}


def test_a_second_scan_changes_nothing_and_raises_no_revision(tmp_path: Path) -> None:
    gguf(tmp_path / "a.gguf")
    gguf(tmp_path / "b" / "b-Q8_0.gguf")
    gguf(tmp_path / "b" / "b-Q4_0.gguf")
    scan(tmp_path)
    before = registry_revision()

    report = scan(tmp_path)

    assert not report.changed
    assert registry_revision() == before
    assert report.lines() == ["3 models in the models folder: nothing changed"]


def test_a_file_that_grew_is_noticed(tmp_path: Path) -> None:
    gguf(tmp_path / "a.gguf", size=10)
    scan(tmp_path)
    gguf(tmp_path / "a.gguf", size=20)

    report = scan(tmp_path)

    assert report.updated == [str(tmp_path / "a.gguf")]
    assert ModelFile.objects.get().size == 20


def test_a_vanished_file_keeps_its_preset_and_comes_back(tmp_path: Path) -> None:
    gguf(tmp_path / "a.gguf")
    scan(tmp_path)
    Preset.objects.update(ctx_size=77)
    (tmp_path / "a.gguf").unlink()

    gone = scan(tmp_path)

    assert gone.missing == [str(tmp_path / "a.gguf")]
    assert ModelFile.objects.get().missing_since is not None
    assert not scan(tmp_path).changed
    gguf(tmp_path / "a.gguf")
    back = scan(tmp_path)
    assert back.returned == [str(tmp_path / "a.gguf")]
    assert ModelFile.objects.get().missing_since is None
    assert Preset.objects.get().ctx_size == 77


def test_a_missing_folder_is_reported_and_marks_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    gguf(folder / "a.gguf")
    scan(folder)
    (folder / "a.gguf").unlink()
    folder.rmdir()

    report = scan(folder)

    assert "CORRAL_MODELS_DIR" in report.vanished[0]
    assert ModelFile.objects.get().missing_since is None


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    assert len(scan(gguf(tmp_path / "a.gguf")).vanished) == 1


def test_a_name_that_someone_gave_away_is_a_conflict_and_stays_theirs(tmp_path: Path) -> None:
    other = make_model_file(tmp_path / "elsewhere" / "x.gguf")
    mine = make_preset("a", other)
    Alias.objects.create(name="b", preset=mine)
    gguf(tmp_path / "models" / "a.gguf")
    gguf(tmp_path / "models" / "b.gguf")
    gguf(tmp_path / "models" / "c.gguf")

    report = scan(tmp_path / "models")

    assert names() == {"a": "x.gguf", "c": "c.gguf"}
    assert len(report.conflicts) == 2
    assert len(scan(tmp_path / "models").conflicts) == 2


def test_two_files_of_one_name_get_one_each(tmp_path: Path) -> None:
    gguf(tmp_path / "a.gguf")
    gguf(tmp_path / "a" / "other.gguf")
    gguf(tmp_path / "x,y.gguf")
    gguf(tmp_path / "x;y.gguf")

    report = scan(tmp_path)

    assert names() == {
        "a": "a.gguf",
        "a-2": "other.gguf",
        "x-y": "x,y.gguf",
        "x-y-2": "x;y.gguf",
    }
    assert len(report.conflicts) == 2


def test_a_file_registered_by_hand_is_left_alone(tmp_path: Path) -> None:
    model_file = make_model_file(tmp_path / "a.gguf")
    make_preset("mine", model_file)
    before = registry_revision()

    report = scan(tmp_path)

    assert names() == {"mine": "a.gguf"}
    assert registry_revision() == before
    (tmp_path / "a.gguf").unlink()
    assert scan(tmp_path).missing == []
    assert not report.changed


def test_a_preset_that_someone_made_for_a_found_file_is_enough(tmp_path: Path) -> None:
    gguf(tmp_path / "a.gguf")
    scan(tmp_path)
    Preset.objects.get().delete()
    make_preset("mine", ModelFile.objects.get())

    scan(tmp_path)

    assert names() == {"mine": "a.gguf"}


def test_odd_entries_are_reported_and_stop_nothing(tmp_path: Path) -> None:
    gguf(tmp_path / "good.gguf")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling.gguf").symlink_to(tmp_path / "nowhere")
    (tmp_path / "round").mkdir()
    (tmp_path / "round" / "back").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "folder.gguf").mkdir()
    gguf(tmp_path / "line\nbreak.gguf")
    gguf(tmp_path / ".hidden.gguf")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.gguf")).write_bytes(b"GGUF")

    report = scan(tmp_path)

    assert names() == {"good": "good.gguf"}
    text = "\n".join(report.problems)
    assert len(report.problems) == 6
    for word in ("loop", "dangling", "pipe", "line", "UTF-8", "back"):
        assert word in text
    text.encode()


def test_symlinks_to_models_are_models(tmp_path: Path) -> None:
    store = gguf(tmp_path / "store" / "blob.gguf")
    models = tmp_path / "models"
    models.mkdir()
    (models / "linked.gguf").symlink_to(store)
    (models / "folder").symlink_to(store.parent)

    scan(models)

    assert set(names()) == {"linked", "folder"}


def test_what_could_not_be_listed_is_not_missing(tmp_path: Path) -> None:
    gguf(tmp_path / "inside" / "a.gguf")
    scan(tmp_path)
    (tmp_path / "inside" / "a.gguf").unlink()
    (tmp_path / "inside").rmdir()
    (tmp_path / "inside").symlink_to(tmp_path / "inside")

    report = scan(tmp_path)

    assert report.missing == []
    assert len(report.problems) == 1


def test_the_command_says_what_it_found(tmp_path: Path, settings: Any) -> None:
    gguf(tmp_path / "a.gguf")
    settings.CORRAL_MODELS_DIR = str(tmp_path)
    out = StringIO()

    call_command("rescan", stdout=out)

    assert out.getvalue() == "1 model in the models folder: 1 new\nnew: a\n"


def test_the_command_fails_without_a_folder(tmp_path: Path, settings: Any) -> None:
    settings.CORRAL_MODELS_DIR = ""

    with pytest.raises(CommandError, match="CORRAL_MODELS_DIR"):
        call_command("rescan")
    with pytest.raises(CommandError, match="cannot be listed"):
        call_command("rescan", models_dir=tmp_path / "nothing", stdout=StringIO())


def test_without_a_folder_the_command_says_how_to_name_it(settings: Any) -> None:
    settings.CORRAL_MODELS_DIR = ""

    with pytest.raises(CommandError, match="--models-dir"):
        call_command("rescan")
