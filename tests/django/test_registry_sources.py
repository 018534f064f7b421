"""Several sources in one registry: whose name counts, and what follows what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models_registry import bulk
from models_registry.models import Alias, ModelFile, Preset, Source
from models_registry.revision import registry_revision
from models_registry.sources import discovery
from models_registry.sources.discovery import Report, rescan
from models_registry.sources.reading import Places, places_of
from tests.unit.registry.sources.laying import Hub, Ollama

from .registry_rows import gguf, make_model_file, make_preset

pytestmark = pytest.mark.django_db
LIBRARY = "registry.ollama.ai/library"
NEW = "f" * 40


class Stage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "models"
        self.folder.mkdir()
        self.hub = Hub(folder / "hub")
        self.ollama = Ollama(folder / "ollama")
        self.places = Places(self.folder, self.hub.folder, self.ollama.folder)

    def scan(self, **places: Path | None) -> Report:
        return rescan(replace(self.places, **places))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def runs(name: str) -> str:
    return Preset.objects.get(name=name).model_file.path


def test_each_source_is_told_in_the_rows_and_in_the_report(stage: Stage) -> None:
    gguf(stage.folder / "dir.gguf")
    stage.hub.add("user/repo", "m-Q8_0.gguf")
    stage.ollama.add(f"{LIBRARY}/llama3/latest")

    report = stage.scan()

    assert dict(Preset.objects.values_list("name", "source")) == {
        "dir": Source.MODELS_DIR, "user/repo:Q8_0": Source.CACHE, "llama3:latest": Source.OLLAMA,
    }  # fmt: skip
    assert dict(Alias.objects.values_list("name", "preset__name")) == {
        "user/repo": "user/repo:Q8_0", "llama3": "llama3:latest",
    }  # fmt: skip
    assert report.found == {"models_dir": 1, "cache": 1, "ollama": 1}
    assert report.lines()[0] == (
        "1 model in the models folder, 1 model in the Hugging Face cache, "
        "1 model in Ollama's store: 3 new"
    )


def test_a_second_rescan_of_all_sources_writes_nothing_and_asks_little(
    stage: Stage, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        gguf(stage.folder / "p" / str(number) / "dir.gguf")
    for tag in ("Q8_0", "Q4_0"):
        stage.hub.add("user/repo", f"m-{tag}.gguf")
    for name in ("a/latest", "a/8b"):
        stage.ollama.add(f"{LIBRARY}/{name}", params={"temperature": 0.5})
    stage.scan()
    before = registry_revision()

    with django_assert_max_num_queries(4):
        report = stage.scan()

    assert not report.changed
    assert registry_revision() == before


def test_a_report_for_people_is_bounded(stage: Stage) -> None:
    for number in range(120):
        gguf(stage.folder / f"{number}.gguf")

    lines = stage.scan().lines()

    assert len(lines) == discovery.MOST_LINES
    assert lines[-1] == "and 22 lines more"


def test_what_is_made_stands_in_the_history_as_a_rescans(stage: Stage) -> None:
    gguf(stage.folder / "a.gguf")
    stage.scan()

    preset = Preset.objects.get()

    (record,) = preset.history.all()
    assert (record.version, record.history_change_reason) == (1, "a rescan")
    assert preset.version == 1


def test_of_one_name_the_higher_source_counts(stage: Stage) -> None:
    """The folder's own name meets that of an Ollama model."""
    top = gguf(stage.folder / "x" / "a-Q8_0.gguf")
    stage.ollama.add(f"{LIBRARY}/x/latest")
    gguf(stage.folder / "y:latest" / "m.gguf")
    stage.ollama.add(f"{LIBRARY}/y/latest", b"GGUF two")

    report = stage.scan()

    assert runs("x") == str(top)
    assert runs("y:latest") == str(stage.folder / "y:latest" / "m.gguf")
    assert set(Preset.objects.values_list("name", flat=True)) == {"x", "x:latest", "y:latest"}
    assert any("'x' is taken, so it is no alias" in line for line in report.conflicts)
    assert any("a model of the models folder" in line for line in report.conflicts)
    assert stage.scan().conflicts != []


def test_a_higher_source_that_comes_later_takes_the_name_and_the_options_stay(
    stage: Stage,
) -> None:
    stage.ollama.add(f"{LIBRARY}/y/latest", params={"temperature": 0.5})
    stage.scan()
    Preset.objects.update(ctx_size=512)
    path = gguf(stage.folder / "y:latest" / "m.gguf")

    report = stage.scan()

    preset = Preset.objects.get()
    assert (preset.model_file.path, preset.source) == (str(path), Source.MODELS_DIR)
    assert (preset.ctx_size, preset.file_options) == (512, {})
    assert "the models folder goes before Ollama's store" in report.conflicts[0]
    assert not stage.scan().changed


def test_what_a_person_made_is_above_every_source(stage: Stage, tmp_path: Path) -> None:
    mine = make_preset("user/repo:Q8_0", make_model_file(tmp_path / "mine.gguf"))
    Alias.objects.create(name="llama3:latest", preset=mine)
    make_preset("z", make_model_file(tmp_path / "z.gguf"), source=Source.PRESET_FILE)
    stage.hub.add("user/repo", "m-Q8_0.gguf")
    stage.ollama.add(f"{LIBRARY}/llama3/latest")
    gguf(stage.folder / "z.gguf")

    report = stage.scan()

    assert len(report.conflicts) == 3
    assert Preset.objects.count() == 2
    assert runs("user/repo:Q8_0") == str(tmp_path / "mine.gguf")


def test_a_preset_follows_its_repository_to_a_new_snapshot(stage: Stage) -> None:
    stage.hub.add("user/repo", "m-Q8_0.gguf")
    stage.scan()
    Preset.objects.update(ctx_size=512)
    row = ModelFile.objects.get()
    make_preset("mine", row)
    new = stage.hub.add("user/repo", "m-Q8_0.gguf", commit=NEW)
    eyes = stage.hub.add("user/repo", "mmproj-F16.gguf", commit=NEW)

    report = stage.scan()

    moved = ModelFile.objects.get()
    assert (moved.pk, moved.path, moved.mmproj) == (row.pk, str(new), str(eyes))
    assert runs("user/repo:Q8_0") == runs("mine") == str(new)
    assert Preset.objects.get(name="user/repo:Q8_0").ctx_size == 512
    assert report.missing == []
    assert not stage.scan().changed


def test_a_preset_follows_its_tag_to_a_new_blob_and_its_parameters(stage: Stage) -> None:
    stage.ollama.add(f"{LIBRARY}/a/latest", params={"temperature": 0.5})
    stage.scan()
    new = stage.ollama.add(f"{LIBRARY}/a/latest", b"GGUF anew", params={"temperature": 0.9})

    stage.scan()

    preset = Preset.objects.get()
    assert preset.model_file.path == new
    assert preset.file_options == {"temperature": "0.9"}
    assert ModelFile.objects.count() == 1


def test_a_preset_follows_its_folder_to_a_file_of_another_name(stage: Stage) -> None:
    old = gguf(stage.folder / "gemma" / "gemma-3-Q8_0.gguf")
    stage.scan()
    old.unlink()
    new = gguf(stage.folder / "gemma" / "gemma-4-Q8_0.gguf")

    stage.scan()

    assert runs("gemma") == str(new)
    assert ModelFile.objects.count() == 1


def test_a_preset_stays_with_a_file_that_is_still_there(stage: Stage, tmp_path: Path) -> None:
    """Another models folder with the same names is another thing."""
    gguf(stage.folder / "a.gguf")
    stage.scan()
    other = gguf(tmp_path / "other" / "a.gguf")

    report = stage.scan(models_dir=other.parent)

    assert runs("a") == str(stage.folder / "a.gguf")
    assert runs("a-2") == str(other)
    assert report.missing == []


def test_a_copy_in_ollama_gets_a_preset_beside_the_renamed_one(stage: Stage) -> None:
    stage.ollama.add(f"{LIBRARY}/a/latest", params={"temperature": 0.5})
    stage.scan()
    preset = Preset.objects.get()
    Preset.objects.update(name="mine")
    Alias.objects.create(name="a:latest", preset=preset)  # as a rename leaves it
    assert not stage.scan().changed

    stage.ollama.add(f"{LIBRARY}/b/latest", params={"temperature": 0.9})
    stage.scan()

    assert set(Preset.objects.values_list("name", flat=True)) == {"mine", "b:latest"}
    assert ModelFile.objects.count() == 1
    before = registry_revision()
    stage.scan()
    assert registry_revision() == before


def test_a_projector_that_a_person_chose_stays(stage: Stage, tmp_path: Path) -> None:
    gguf(stage.folder / "v" / "m.gguf")
    gguf(stage.folder / "v" / "mmproj-F16.gguf")
    stage.scan()
    row = ModelFile.objects.get()
    row.mmproj = str(gguf(tmp_path / "other-mmproj.gguf"))
    row._change_reason = "somebody"  # type: ignore[attr-defined]
    row.save()
    gguf(stage.folder / "v" / "m.gguf", size=20)

    stage.scan()

    row.refresh_from_db()
    assert (row.mmproj, row.size) == (str(tmp_path / "other-mmproj.gguf"), 20)


def test_a_projector_that_came_or_went_is_noticed(stage: Stage) -> None:
    gguf(stage.folder / "v" / "m.gguf")
    stage.scan()
    eyes = gguf(stage.folder / "v" / "mmproj-F16.gguf")
    stage.scan()
    assert ModelFile.objects.get().mmproj == str(eyes)
    eyes.unlink()

    stage.scan()

    assert ModelFile.objects.get().mmproj == ""


def test_a_source_that_is_away_leaves_its_rows_and_the_others_go_on(
    stage: Stage, tmp_path: Path
) -> None:
    path = stage.hub.add("user/repo", "m-Q8_0.gguf")
    stage.scan()
    path.unlink()
    stage.hub.folder.rename(tmp_path / "away")
    gguf(stage.folder / "new.gguf")

    report = stage.scan()

    assert report.added == ["new"]
    assert len(report.vanished) == 1
    assert report.found == {"models_dir": 1, "ollama": 0}
    assert ModelFile.objects.get(source=Source.CACHE).missing_since is None


def test_a_download_whose_file_is_gone_is_marked_and_comes_back(
    stage: Stage, tmp_path: Path
) -> None:
    row = make_model_file(tmp_path / "far" / "x.gguf", source=Source.DOWNLOAD)
    make_preset("x", row, source=Source.DOWNLOAD)
    assert not stage.scan().changed
    Path(row.path).unlink()

    assert stage.scan().missing == [row.path]
    assert not stage.scan().changed


def test_a_download_is_not_offered_twice_by_the_cache(stage: Stage) -> None:
    path = stage.hub.add("user/repo", "m-Q8_0.gguf")
    row = ModelFile.objects.create(path=str(path), source=Source.DOWNLOAD, size=8)
    preset = make_preset("user/repo:Q8_0", row, source=Source.DOWNLOAD)
    Alias.objects.create(name="user/repo", preset=preset)

    assert not stage.scan().changed


def test_a_file_of_another_snapshot_that_is_there_is_not_missing(stage: Stage) -> None:
    path = stage.hub.add("user/repo", "m-Q4_0.gguf", commit=NEW, ref="v1")
    stage.scan()
    stage.hub.add("user/repo", "m-Q8_0.gguf")

    report = stage.scan()

    assert (report.missing, report.added) == ([], ["user/repo:Q8_0"])
    assert runs("user/repo:Q4_0") == str(path)


def test_new_models_come_in_several_transactions_when_there_are_many(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "MOST_NEW", 2)
    for number in range(5):
        gguf(stage.folder / f"{number}.gguf")
        gguf(stage.folder / "one" / str(number) / "x.gguf")

    report = stage.scan()

    assert len(report.added) == Preset.objects.count() == 10
    assert not stage.scan().changed


def test_the_presets_file_and_the_sources_change_together_or_not_at_all(
    stage: Stage, tmp_path: Path
) -> None:
    file = tmp_path / "presets.ini"
    file.write_text("[a]\nctx-size = 512\n[b\n")
    path = gguf(stage.folder / "a.gguf")

    report = stage.scan(presets_file=file)

    assert (report.changed, len(report.faults)) == (False, 1)
    assert not ModelFile.objects.exists()
    file.write_text(f"[a]\nctx-size = 512\n[b]\nmodel = {path}\n")
    report = stage.scan(presets_file=file)
    assert report.faults == []
    assert dict(Preset.objects.values_list("name", "source")) == {
        "a": Source.MODELS_DIR, "b": Source.PRESET_FILE,
    }  # fmt: skip
    assert Preset.objects.get(name="a").file_options == {"ctx-size": "512"}
    assert not stage.scan(presets_file=file).changed


def test_it_is_the_same_whether_the_presets_file_or_the_folder_was_first(
    stage: Stage, tmp_path: Path
) -> None:
    file = tmp_path / "presets.ini"
    path = gguf(stage.folder / "a.gguf")
    file.write_text(f"[b]\nmodel = {path}\n")
    rescan(Places(presets_file=file))
    assert ModelFile.objects.get().source == Source.PRESET_FILE

    stage.scan(presets_file=file)

    assert dict(Preset.objects.values_list("name", "source")) == {
        "a": Source.MODELS_DIR, "b": Source.PRESET_FILE,
    }  # fmt: skip
    assert ModelFile.objects.get().source == Source.MODELS_DIR
    assert not stage.scan(presets_file=file).changed


def test_the_stores_parameters_lie_below_the_presets_files_options(
    stage: Stage, tmp_path: Path
) -> None:
    file = tmp_path / "presets.ini"
    file.write_text("[a:latest]\nctx-size = 512\n")
    stage.ollama.add(f"{LIBRARY}/a/latest", params={"temperature": 0.5, "num_ctx": 4096})

    stage.scan(presets_file=file)

    assert Preset.objects.get().file_options == {"temperature": "0.5", "ctx-size": "512"}
    assert not stage.scan(presets_file=file).changed
    file.write_text("")
    stage.scan(presets_file=file)
    assert Preset.objects.get().file_options == {"temperature": "0.5", "ctx-size": "4096"}


def test_the_short_name_goes_to_the_quantisation_that_is_left(stage: Stage) -> None:
    for tag in ("Q8_0", "Q4_0"):
        stage.hub.add("user/repo", f"m-{tag}.gguf")
    stage.scan()
    assert Alias.objects.get().preset.name == "user/repo:Q8_0"
    ModelFile.objects.get(presets__name="user/repo:Q8_0").delete()
    for link in stage.hub.folder.rglob("m-Q8_0.gguf"):
        link.unlink()

    report = stage.scan()

    assert report.updated == ["user/repo:Q4_0"]
    assert Alias.objects.get(name="user/repo").preset.name == "user/repo:Q4_0"
    assert not stage.scan().changed


def test_the_short_name_leaves_a_quantisation_whose_file_was_removed_by_hand(stage: Stage) -> None:
    for tag in ("Q8_0", "Q4_0"):
        stage.hub.add("user/repo", f"m-{tag}.gguf")
    stage.scan()
    for link in stage.hub.folder.rglob("m-Q8_0.gguf"):
        link.unlink()

    stage.scan()

    assert Alias.objects.get(name="user/repo").preset.name == "user/repo:Q4_0"
    assert Preset.objects.filter(name="user/repo:Q8_0").exists()  # its file may come back
    assert not stage.scan().changed

    stage.hub.add("user/repo", "m-Q8_0.gguf")
    stage.scan()
    assert Alias.objects.get(name="user/repo").preset.name == "user/repo:Q4_0"


def test_a_short_name_that_a_person_gave_stays_where_it_is(stage: Stage) -> None:
    for tag in ("Q8_0", "Q4_0"):
        stage.hub.add("user/repo", f"m-{tag}.gguf")
    stage.scan()
    Alias.objects.get().delete()
    Alias.objects.create(name="user/repo", preset=Preset.objects.get(name="user/repo:Q8_0"))
    for link in stage.hub.folder.rglob("m-Q8_0.gguf"):
        link.unlink()

    stage.scan()

    assert Alias.objects.get().preset.name == "user/repo:Q8_0"


def test_a_repository_that_cannot_be_looked_into_keeps_its_short_name(stage: Stage) -> None:
    stage.hub.add("user/repo", "m-Q8_0.gguf")
    stage.scan()
    gone = stage.hub.folder.rename(stage.hub.folder.with_name("unmounted"))

    stage.scan()
    gone.rename(stage.hub.folder)

    assert Alias.objects.get().preset.name == "user/repo:Q8_0"


@pytest.mark.parametrize("how", ["deleted", "renamed", "taken"])
def test_a_short_name_that_a_person_took_away_does_not_come_back(stage: Stage, how: str) -> None:
    stage.hub.add("user/repo", "m-Q8_0.gguf")
    stage.scan()
    alias = Alias.objects.get()
    if how == "deleted":
        alias.delete()
    elif how == "renamed":
        alias.name = "mine"
        alias.save()
    else:
        alias.preset = make_preset("other", make_model_file(stage.folder.parent / "o.gguf"))
        alias.save()

    assert not stage.scan().changed

    left = set(Alias.objects.values_list("name", "preset__name"))
    assert left == {
        "deleted": set(),
        "renamed": {("mine", "user/repo:Q8_0")},
        "taken": {("user/repo", "other")},
    }[how]  # fmt: skip


def test_a_broken_write_leaves_nothing_half_done(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gguf(stage.folder / "a.gguf")

    def breaks() -> None:
        raise RuntimeError("the power went")

    monkeypatch.setattr(bulk, "bump", breaks)

    with pytest.raises(RuntimeError):
        stage.scan()

    assert not ModelFile.objects.exists()
    assert not Preset.objects.exists()


def test_without_a_named_folder_a_cache_that_is_not_there_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LLAMA_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))

    def cache(setting: str) -> Path | None:
        return places_of(
            models_dir="", hf_cache=setting, ollama_models="", models_preset=""
        ).hf_cache

    assert cache("") is None
    assert cache(str(tmp_path / "named")) == tmp_path / "named"
    (tmp_path / "hub").mkdir()
    assert cache("") == tmp_path / "hub"
    assert cache("0") is None
