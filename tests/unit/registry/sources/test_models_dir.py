"""A models folder: which names, which files belong together, and what is odd in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from models_registry.errors import ModelsFolderMissing
from models_registry.model_paths import files_state
from models_registry.naming import name_problem
from models_registry.sources.found import FoundModel
from models_registry.sources.models_dir import read_models_folder
from models_registry.sources.tree import DEEPEST

from .laying import gguf


def found(folder: Path) -> dict[str, FoundModel]:
    contents = read_models_folder(folder)
    assert contents.problems == []
    return {model.name: model for model in contents.models}


def test_deeper_folders_are_named_by_their_path(tmp_path: Path) -> None:
    gguf(tmp_path / "lmstudio-community" / "Qwen3-8B-GGUF" / "Qwen3-8B-Q4_K_M.gguf")
    for tag in ("Q4_K_M", "Q8_0"):
        gguf(tmp_path / "bartowski" / "gemma" / f"gemma-{tag}.gguf")
    gguf(tmp_path / "a" / "b" / "c" / "d" / "x.gguf")

    models = found(tmp_path)

    assert set(models) == {
        "lmstudio-community/Qwen3-8B-GGUF", "bartowski/gemma:Q4_K_M", "bartowski/gemma:Q8_0",
        "a/b/c/d",
    }  # fmt: skip
    assert models["bartowski/gemma:Q4_K_M"].aliases == ("bartowski/gemma",)


def test_companions_are_those_of_the_same_folder(tmp_path: Path) -> None:
    mmproj = gguf(tmp_path / "p" / "vision" / "mmproj-F16.gguf")
    draft = gguf(tmp_path / "p" / "vision" / "eagle3-x.gguf")
    gguf(tmp_path / "p" / "vision" / "eagle3-y.gguf")
    gguf(tmp_path / "p" / "vision" / "x-imatrix.gguf")
    gguf(tmp_path / "p" / "vision" / "x-Q8_0.gguf")
    gguf(tmp_path / "p" / "text" / "y-Q8_0.gguf")

    models = found(tmp_path)

    vision = models["p/vision"]
    assert (vision.mmproj, vision.draft) == (str(mmproj), str(draft))
    assert vision.stamp == files_state(vision.path, vision.mmproj, vision.draft).stamp
    assert (models["p/text"].mmproj, models["p/text"].draft) == ("", "")


@pytest.mark.parametrize("name", ["mtp-x", "eagle3-x", "dflash-x", "dspark-x", "x-DRAFT-0.6B"])
def test_a_draft_model_beside_another_is_its_draft(tmp_path: Path, name: str) -> None:
    draft = gguf(tmp_path / "m" / f"{name}.gguf")
    gguf(tmp_path / "m" / "model.gguf")

    assert found(tmp_path)["m"].draft == str(draft)


def test_what_calls_itself_a_draft_is_a_model_where_it_is_alone(tmp_path: Path) -> None:
    gguf(tmp_path / "Qwen-DRAFT-0.5B-Q8_0.gguf")
    gguf(tmp_path / "one" / "Qwen-DRAFT-0.5B-Q8_0.gguf")
    for tag in ("Q4_0", "Q8_0"):
        gguf(tmp_path / "two" / f"Qwen-DRAFT-0.5B-{tag}.gguf")

    assert set(found(tmp_path)) == {"Qwen-DRAFT-0.5B-Q8_0", "one", "two:Q4_0", "two:Q8_0"}


def test_shards_deep_down_are_one_model(tmp_path: Path) -> None:
    for number in (1, 2):
        gguf(tmp_path / "p" / "r" / f"x-0000{number}-of-00002.gguf")

    model = found(tmp_path)["p/r"]

    assert model.size == 16
    assert model.stamp == files_state(model.path).stamp


def test_folders_that_lead_round_are_looked_into_once(tmp_path: Path) -> None:
    gguf(tmp_path / "a" / "x.gguf")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "to-a").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "to-b").symlink_to(tmp_path / "b")

    contents = read_models_folder(tmp_path)

    assert [model.name for model in contents.models] == ["a"]
    assert len(contents.problems) == 3
    assert all("is the same folder as" in problem for problem in contents.problems)


def test_of_a_folder_and_a_link_to_it_the_folder_counts(tmp_path: Path) -> None:
    gguf(tmp_path / "zephyr" / "x.gguf")
    (tmp_path / "a-link").symlink_to(tmp_path / "zephyr")

    contents = read_models_folder(tmp_path)

    assert [model.name for model in contents.models] == ["zephyr"]


def test_what_lies_too_deep_is_said(tmp_path: Path) -> None:
    deepest = tmp_path.joinpath(*"abcdefgh"[:DEEPEST])
    gguf(deepest / "x.gguf")
    gguf(deepest / "i" / "y.gguf")

    contents = read_models_folder(tmp_path)

    assert [model.name for model in contents.models] == ["/".join("abcdefgh"[:DEEPEST])]
    assert "folders deep" in contents.problems[0]
    assert contents.unknown == [str(deepest / "i")]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a,b.gguf", "a-b"),
        ("modèle.gguf", "mod-le"),
        ("..hidden..x.gguf", None),
        ("a  b.gguf", "a b"),
        ("a]b[c.gguf", "a-b-c"),
        ("x" * 240 + ".gguf", "x" * 200),
        ("weird.gguf.gguf", "weird"),
        ("日本.gguf", "model-"),
    ],
)
def test_any_file_gets_a_name_that_can_be_asked_for(
    tmp_path: Path, file: str, name: str | None
) -> None:
    gguf(tmp_path / file)

    names = list(found(tmp_path))

    if name is None:  # hidden, as it begins with a dot
        assert names == []
    else:
        assert names[0].startswith(name)
        assert name_problem(names[0]) == ""


def test_a_path_too_long_for_the_registry_is_said(tmp_path: Path) -> None:
    folder = tmp_path
    while len(str(folder)) < 1000:
        folder = folder / ("d" * 200)
    gguf(folder / f"{'x' * 100}.gguf")

    assert "more than 1024 characters" in read_models_folder(tmp_path).problems[0]


def test_a_folder_whose_name_is_not_utf_8_loses_its_files_only(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    gguf(odd / "x.gguf")
    gguf(tmp_path / "good.gguf")

    contents = read_models_folder(tmp_path)

    assert [model.name for model in contents.models] == ["good"]
    assert "UTF-8" in contents.problems[0]
    contents.problems[0].encode()


@pytest.mark.parametrize("control", ["\n", "\x1b", "\x7f", "\x9b"])
def test_a_complaint_of_a_name_is_one_line_that_tells_a_terminal_nothing(
    tmp_path: Path, control: str
) -> None:
    gguf(tmp_path / f"a{control}b.gguf")

    contents = read_models_folder(tmp_path)

    assert contents.models == []
    assert control not in contents.problems[0]
    assert contents.problems[0].startswith(f"{tmp_path}/a\ufffdb.gguf: ")


def test_the_order_of_the_disk_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b", "a", "c"):
        gguf(tmp_path / "m" / f"{name}-Q8_0.gguf")
        gguf(tmp_path / name / "x.gguf")
    straight = read_models_folder(tmp_path)

    class Backwards:
        def __init__(self, path: str) -> None:
            with scandir(path) as entries:
                self.entries = sorted(entries, key=lambda entry: entry.name, reverse=True)

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            return None

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", Backwards)

    assert read_models_folder(tmp_path) == straight


def test_a_folder_that_cannot_be_listed_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelsFolderMissing, match="--models-dir"):
        read_models_folder(tmp_path / "nothing")
