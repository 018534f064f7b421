"""Deleting a model deletes its own files inside our folders, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from models_registry.access import Asker
from models_registry.downloads import removing
from models_registry.errors import ManagementRefused
from models_registry.models import Alias, ModelFile, Preset
from models_registry.ports import PresetStatus
from models_registry.tasks import rescan_sources
from tests.django.registry_rows import FakeScheduler, away, use_scheduler

from .conftest import GGUF, in_cache

REPO = {
    "m-Q8_0-00001-of-00002.gguf": GGUF + b"1",
    "m-Q8_0-00002-of-00002.gguf": GGUF + b"2",
    "m-Q4_0.gguf": GGUF + b"4",
    "mmproj-F16.gguf": GGUF + b"p",
}
ASKER = Asker("a test", everything=True)


@pytest.fixture(autouse=True)
def scheduler(monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    return use_scheduler(monkeypatch, FakeScheduler())


def file_of(preset: str) -> ModelFile:
    return Preset.objects.get(name=preset).model_file


def remove(preset: str, *, unload: bool = False, cascade: bool = False) -> None:
    removing.remove(file_of(preset), ASKER, unload=unload, cascade=cascade)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if not path.is_dir()}


def test_one_quantisation_goes_and_what_others_need_stays(
    stand_in, fetched, tmp_path: Path
) -> None:
    repo = stand_in.repository("team/m", REPO)
    fetched("team/m:Q8_0", sidecars=["mmproj"])
    fetched("team/m:Q4_0", sidecars=["mmproj"])
    folder = in_cache(tmp_path, "team/m")

    remove("team/m:Q8_0")

    snapshot = folder / "snapshots" / repo.commit
    assert names(snapshot) == {"m-Q4_0.gguf", "mmproj-F16.gguf"}
    assert len(names(folder / "blobs")) == 2
    assert [preset.name for preset in Preset.objects.all()] == ["team/m:Q4_0"]
    assert (snapshot / "mmproj-F16.gguf").read_bytes() == REPO["mmproj-F16.gguf"]


def test_the_short_name_goes_to_a_quantisation_that_is_left_at_once(
    stand_in, fetched, tmp_path: Path
) -> None:
    stand_in.repository("team/m", REPO)
    fetched("team/m:Q8_0")
    fetched("team/m:Q4_0")
    assert Alias.objects.get(name="team/m").preset.name == "team/m:Q8_0"

    remove("team/m:Q8_0")
    assert Alias.objects.get(name="team/m").preset.name == "team/m:Q4_0"

    remove("team/m:Q4_0")
    assert not Alias.objects.exists()


def test_the_short_name_leaves_what_was_fetched_and_removed_by_hand(
    stand_in, fetched, tmp_path: Path
) -> None:
    stand_in.repository("team/m", REPO | {"m-F16.gguf": GGUF + b"f"})
    for tag in ("Q8_0", "Q4_0", "F16"):
        fetched(f"team/m:{tag}")
    for left in ("Q8_0", "F16"):
        assert Alias.objects.get(name="team/m").preset.name == f"team/m:{left}"
        for link in in_cache(tmp_path, "team/m").rglob(f"m-{left}*.gguf"):
            link.unlink()
        rescan_sources()

    assert Alias.objects.get(name="team/m").preset.name == "team/m:Q4_0"


def test_with_the_last_one_the_repository_goes(stand_in, fetched, tmp_path: Path) -> None:
    stand_in.repository("team/m", REPO)
    fetched("team/m:Q4_0")

    remove("team/m:Q4_0")

    assert not in_cache(tmp_path, "team/m").exists()
    assert not ModelFile.objects.exists()


def test_a_blob_that_an_older_snapshot_leads_to_stays(stand_in, fetched, tmp_path: Path) -> None:
    repo = stand_in.repository("team/m", {"m-Q4_0.gguf": GGUF})
    fetched("team/m")
    repo.files["README.md"] = b"newer"
    fetched("team/m")

    remove("team/m:Q4_0")

    folder = in_cache(tmp_path, "team/m")
    [older] = (folder / "snapshots").rglob("*.gguf")
    assert older.read_bytes() == GGUF


def test_a_link_out_of_the_cache_is_deleted_and_what_it_leads_to_is_not(
    stand_in, fetched, tmp_path: Path
) -> None:
    stand_in.repository("team/m", {"m-Q4_0.gguf": GGUF})
    fetched("team/m")
    path = Path(file_of("team/m:Q4_0").path)
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(GGUF)
    path.unlink()
    path.symlink_to(mine)

    remove("team/m:Q4_0")

    assert mine.read_bytes() == GGUF
    assert not path.is_symlink()


def test_a_folder_that_leads_out_of_the_cache_is_not_followed(
    stand_in, fetched, tmp_path: Path
) -> None:
    stand_in.repository("team/m", {"m-Q4_0.gguf": GGUF})
    fetched("team/m")
    snapshot = Path(file_of("team/m:Q4_0").path).parent
    elsewhere = tmp_path / "elsewhere"
    snapshot.rename(elsewhere)
    (elsewhere / "m-Q4_0.gguf").unlink()
    (elsewhere / "m-Q4_0.gguf").write_bytes(GGUF)
    snapshot.symlink_to(elsewhere)

    with pytest.raises(ManagementRefused, match="not deleted"):
        remove("team/m:Q4_0")

    assert (elsewhere / "m-Q4_0.gguf").read_bytes() == GGUF
    assert Preset.objects.count() == 1


def test_a_file_elsewhere_is_not_deleted(db, stand_in, tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(GGUF)
    row = ModelFile.objects.create(path=str(path), source="cache")

    with pytest.raises(ManagementRefused, match="not deleted"):
        removing.remove(row, ASKER, unload=True, cascade=True)

    assert path.exists()


def test_a_model_that_runs_is_unloaded_only_when_that_was_asked(
    stand_in, fetched, scheduler: FakeScheduler
) -> None:
    stand_in.repository("team/m", {"m-Q4_0.gguf": GGUF})
    fetched("team/m")
    scheduler.answer = {"team/m:Q4_0": PresetStatus("loaded")}

    with pytest.raises(ManagementRefused, match="unload first"):
        remove("team/m:Q4_0")
    assert Preset.objects.count() == 1

    remove("team/m:Q4_0", unload=True)
    assert not Preset.objects.exists()


def test_while_nobody_knows_whether_it_runs_nothing_is_deleted(
    stand_in, fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.repository("team/m", {"m-Q4_0.gguf": GGUF})
    fetched("team/m")
    use_scheduler(monkeypatch, away())

    with pytest.raises(ManagementRefused) as refused:
        remove("team/m:Q4_0")

    assert refused.value.code == "scheduler_unavailable"
    assert Path(file_of("team/m:Q4_0").path).exists()


def test_presets_of_a_persons_making_are_named_and_go_only_when_asked(stand_in, fetched) -> None:
    stand_in.repository("team/m", {"m-Q4_0.gguf": GGUF})
    fetched("team/m")
    file = file_of("team/m:Q4_0")
    Preset.objects.create(name="mine", model_file=file)

    with pytest.raises(ManagementRefused, match="mine"):
        remove("team/m:Q4_0")
    assert Path(file.path).exists()

    remove("team/m:Q4_0", cascade=True)
    assert not Preset.objects.exists()
    assert not Path(file.path).exists()


def test_a_base_of_others_stays(stand_in, fetched, tmp_path: Path) -> None:
    stand_in.repository("team/m", {"m-Q4_0.gguf": GGUF})
    fetched("team/m")
    other = ModelFile.objects.create(path=str(tmp_path / "other.gguf"))
    Preset.objects.create(
        name="heir", model_file=other, base=Preset.objects.get(name="team/m:Q4_0")
    )

    with pytest.raises(ManagementRefused, match="base of heir"):
        remove("team/m:Q4_0", cascade=True)


def test_what_came_from_a_url_goes(stand_in, fetched, tmp_path: Path) -> None:
    stand_in.files["/m.gguf"] = GGUF
    row = fetched(f"{stand_in.url}/m.gguf", "url")

    removing.remove_fetched(row, ASKER, unload=False, cascade=False)

    assert not list((tmp_path / "var" / "models").rglob("*.gguf"))
    assert [path.name for path in (tmp_path / "var" / "models" / "url").iterdir()] == [".parts"]


def test_of_two_names_that_are_one_file_only_the_one_that_was_named_goes(
    stand_in, fetched, tmp_path: Path
) -> None:
    for tag in ("latest", "8b"):
        stand_in.ollama("library/q", tag, {"model": GGUF})
    first, second = fetched("q", "ollama"), fetched("q:8b", "ollama")

    removing.remove_fetched(second, ASKER, unload=False, cascade=False)
    assert [preset.name for preset in Preset.objects.all()] == ["q:latest"]
    assert Path(file_of("q:latest").path).read_bytes() == GGUF

    removing.remove_fetched(first, ASKER, unload=False, cascade=False)
    assert not list((tmp_path / "var" / "models").rglob("*.gguf"))


def test_where_nothing_may_be_deleted_nothing_is_taken_away(
    stand_in, fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.repository("team/m", {"m-Q4_0.gguf": GGUF})
    fetched("team/m")
    monkeypatch.setattr("os.access", lambda path, mode: "blobs" not in str(path))

    with pytest.raises(ManagementRefused, match=r"may not write in .*blobs"):
        remove("team/m:Q4_0")

    assert Path(file_of("team/m:Q4_0").path).read_bytes() == GGUF
