"""The Hugging Face cache, by llama.cpp's rules (docs/compatibility.md has the deviations)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from models_registry.errors import ModelsFolderMissing
from models_registry.model_paths import files_state
from models_registry.sources.found import FoundModel
from models_registry.sources.hf_cache import hub_cache, read_hf_cache, repo_of

from .laying import COMMIT, Hub, gguf

OTHER = "f" * 40


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path / "hub")


def found(hub: Hub) -> dict[str, FoundModel]:
    contents = read_hf_cache(hub.folder)
    assert contents.problems == []
    return {model.name: model for model in contents.models}


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"LLAMA_CACHE": "/l", "HF_HUB_CACHE": "/h"}, "/l"),
        ({"HF_HUB_CACHE": "/h", "HUGGINGFACE_HUB_CACHE": "/g"}, "/h"),
        ({"HUGGINGFACE_HUB_CACHE": "/g", "HF_HOME": "/home"}, "/g"),
        ({"HF_HOME": "/home", "XDG_CACHE_HOME": "/x"}, "/home/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"LLAMA_CACHE": "", "HF_HOME": "/home"}, "/home/hub"),
    ],
)
def test_the_first_variable_that_is_set_names_the_folder(
    environ: dict[str, str], folder: str
) -> None:
    assert hub_cache("", environ) == Path(folder)
    assert hub_cache("/mine", environ) == Path("/mine")
    assert hub_cache("0", environ) == Path(folder)


def test_without_any_it_is_the_home_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")

    assert hub_cache("", {}) == Path("/home/me/.cache/huggingface/hub")


def test_a_model_is_named_by_its_repository_and_the_tag_in_capitals(hub: Hub) -> None:
    path = hub.add("ggml-org/gemma-3-4b-it-GGUF", "gemma-3-4b-it-q4_k_m.gguf")

    model = found(hub)["ggml-org/gemma-3-4b-it-GGUF:Q4_K_M"]

    assert (model.path, model.size) == (str(path), 8)
    assert model.aliases == ("ggml-org/gemma-3-4b-it-GGUF",)
    assert model.stamp == files_state(str(path)).stamp


def test_a_repository_of_a_long_name_has_a_name_that_is_cut_and_no_short_one(hub: Hub) -> None:
    """A folder's name has at most 255 bytes: llama.cpp's limit of 256 is never met."""
    hub.add(f"{'u' * 100}/{'r' * 120}", "m-Q8_0.gguf")

    [model] = found(hub).values()

    assert model.name == f"{'u' * 100}/{'r' * 99}"
    assert model.aliases == ()


def test_the_tag_is_the_last_word_after_a_dash_or_a_dot(hub: Hub) -> None:
    hub.add("a/b", "model-UD-Q4_K_XL.gguf")
    hub.add("a/b", "model.F16.gguf")

    assert set(found(hub)) == {"a/b:Q4_K_XL", "a/b:F16"}


def test_a_second_file_of_a_tag_is_named_by_its_path_and_none_is_lost(hub: Hub) -> None:
    first = hub.add("a/b", "UD/m-Q4_0.gguf")
    second = hub.add("a/b", "m-Q4_0.gguf")

    models = found(hub)

    assert {name: model.path for name, model in models.items()} == {
        "a/b:Q4_0": str(first),
        "a/b/m-Q4_0": str(second),
    }


def test_a_file_without_a_tag_is_named_by_its_path(hub: Hub) -> None:
    hub.add("a/b", "deep/model.gguf")

    assert set(found(hub)) == {"a/b/deep/model"}


def test_the_repositorys_own_name_means_q4_k_m_then_q8_0_then_the_first(hub: Hub) -> None:
    for tag in ("BF16", "Q4_K_M", "Q8_0"):
        hub.add("a/all", f"m-{tag}.gguf")
    for tag in ("BF16", "Q8_0"):
        hub.add("a/some", f"m-{tag}.gguf")
    for tag in ("Q6_K", "Q5_K"):
        hub.add("a/other", f"m-{tag}.gguf")

    aliases = {alias: name for name, model in found(hub).items() for alias in model.aliases}

    assert aliases == {"a/all": "a/all:Q4_K_M", "a/some": "a/some:Q8_0", "a/other": "a/other:Q5_K"}


def test_companions_are_no_models_wherever_in_the_name_it_stands(hub: Hub) -> None:
    for name in (
        "mmproj-F16.gguf", "m.mmproj-Q8_0.gguf", "m-imatrix.gguf", "mtp-m-Q8_0.gguf",
        "m-eagle3-Q8_0.gguf", "dflash-Q8_0.gguf", "dspark-Q8_0.gguf",
    ):  # fmt: skip
        hub.add("a/b", name)

    assert found(hub) == {}


def test_a_folder_that_is_named_as_a_companion_hides_nothing(hub: Hub) -> None:
    hub.add("a/b", "with-mmproj/m-Q8_0.gguf")

    assert set(found(hub)) == {"a/b:Q8_0"}


def test_shards_are_one_model_by_the_first(hub: Hub) -> None:
    for number in (1, 2, 3):
        hub.add("a/b", f"Q8_0/m-Q8_0-0000{number}-of-00003.gguf")

    model = found(hub)["a/b:Q8_0"]

    assert model.path.endswith("m-Q8_0-00001-of-00003.gguf")
    assert model.size == 24
    assert model.stamp == files_state(model.path).stamp


def test_a_shard_that_is_missing_is_said(hub: Hub) -> None:
    hub.add("a/b", "m-Q8_0-00001-of-00003.gguf")

    contents = read_hf_cache(hub.folder)

    assert [model.name for model in contents.models] == ["a/b:Q8_0"]
    assert "2 of its 3 shards are missing" in contents.problems[0]


def test_only_the_snapshot_of_refs_main_counts(hub: Hub) -> None:
    hub.add("a/b", "old-Q8_0.gguf", commit=OTHER, ref="")
    new = hub.add("a/b", "new-Q4_0.gguf")

    assert {model.path for model in found(hub).values()} == {str(new)}


def test_without_main_the_first_ref_by_name_that_leads_somewhere_counts(hub: Hub) -> None:
    hub.add("a/b", "x-Q8_0.gguf", ref="v2")
    hub.add("a/b", "y-Q4_0.gguf", commit=OTHER, ref="v3")
    refs = hub.repo("a/b") / "refs"
    (refs / "main").write_text("no commit")
    (refs / "v1").write_text("a" * 40)  # its snapshot is gone
    os.mkfifo(refs / "v0")

    assert set(found(hub)) == {"a/b:Q8_0"}


def test_without_any_ref_the_only_snapshot_counts_and_of_two_none(hub: Hub) -> None:
    hub.add("a/one", "x-Q8_0.gguf", ref="")
    hub.add("a/two", "x-Q8_0.gguf", ref="")
    hub.add("a/two", "x-Q8_0.gguf", commit=OTHER, ref="")

    contents = read_hf_cache(hub.folder)

    assert [model.name for model in contents.models] == ["a/one:Q8_0"]
    assert "2 snapshots" in contents.problems[0]


def test_plain_files_do_where_links_could_not_be_made(hub: Hub) -> None:
    file = gguf(hub.repo("a/b") / "snapshots" / COMMIT / "m-Q8_0.gguf")

    assert found(hub)["a/b:Q8_0"].path == str(file)


def test_what_is_being_downloaded_is_no_model_yet(hub: Hub) -> None:
    place = hub.repo("a/b")
    gguf(place / "blobs" / ("a" * 64 + ".downloadInProgress"))
    gguf(place / "blobs" / ("b" * 64 + ".incomplete"))

    assert found(hub) == {}


def test_a_blob_that_is_gone_is_said_for_models_only(hub: Hub) -> None:
    for name in ("m-Q8_0.gguf", "README.md"):
        hub.add("a/b", name).resolve().unlink()

    contents = read_hf_cache(hub.folder)

    assert contents.models == []
    assert len(contents.problems) == 1
    assert "m-Q8_0.gguf" in contents.problems[0]


@pytest.mark.parametrize(
    ("folder", "repo"),
    [
        ("models--user--repo", "user/repo"),
        ("models--user--my--repo", "user/my--repo"),
        ("models--gpt2", "gpt2"),
        ("models--a.b--c_d-e.f", "a.b/c_d-e.f"),
        ("models--", ""),
        ("models--user--", ""),
        ("models--..--x", ""),
        ("models--user--x y", ""),
    ],
)
def test_a_folders_name_is_a_repositorys(folder: str, repo: str) -> None:
    assert repo_of(folder) == repo


def test_other_folders_and_files_are_nobodys(hub: Hub) -> None:
    gguf(hub.folder / "datasets--a--b" / "snapshots" / COMMIT / "x-Q8_0.gguf")
    gguf(hub.folder / "top-Q8_0.gguf")
    gguf(hub.folder / "models--a--file")
    (hub.folder / "models--a--empty").mkdir()

    assert found(hub) == {}


def test_a_repository_with_a_bad_name_is_said(hub: Hub) -> None:
    (hub.folder / "models--a--b,c").mkdir()

    assert "models--a--b,c" in read_hf_cache(hub.folder).problems[0]


def test_the_projector_is_the_nearest_then_of_the_same_tag_then_nearest_in_bits(hub: Hub) -> None:
    near = hub.add("a/tree", "small/mmproj-F32.gguf")
    hub.add("a/tree", "mmproj-Q8_0.gguf")
    hub.add("a/tree", "small/m-Q8_0.gguf")
    same = hub.add("a/tag", "mmproj-Q8_0.gguf")
    hub.add("a/tag", "mmproj-Q6_K.gguf")
    hub.add("a/tag", "m-Q8_0.gguf")
    close = hub.add("a/bits", "mmproj-Q8_0.gguf")
    hub.add("a/bits", "mmproj-F16.gguf")
    hub.add("a/bits", "m-Q4_0.gguf")
    equal = hub.add("a/equal", "mmproj-F16.gguf")
    hub.add("a/equal", "mmproj-BF16.gguf")
    hub.add("a/equal", "m-Q4_0.gguf")

    models = found(hub)

    assert models["a/tree:Q8_0"].mmproj == str(near)
    assert models["a/tag:Q8_0"].mmproj == str(same)
    assert models["a/bits:Q4_0"].mmproj == str(close)
    assert models["a/equal:Q4_0"].mmproj == str(equal)
    assert (
        models["a/equal:Q4_0"].stamp == files_state(models["a/equal:Q4_0"].path, str(equal)).stamp
    )


def test_a_draft_model_of_the_repository_is_not_run_unasked(hub: Hub) -> None:
    hub.add("a/b", "m-Q8_0.gguf")
    hub.add("a/b", "mtp-m-Q8_0.gguf")

    assert found(hub)["a/b:Q8_0"].draft == ""


def test_a_cache_that_cannot_be_listed_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelsFolderMissing, match="--no-hf-cache"):
        read_hf_cache(tmp_path / "nothing")
