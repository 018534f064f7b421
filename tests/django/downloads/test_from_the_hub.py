"""A repository of the hub becomes a model that is offered, in the layout that others read."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download, scan_cache_dir

from models_registry.models import Alias, Download, ModelFile, Preset

from .conftest import GGUF, in_cache, parts

REPO = {
    "README.md": b"# hello",
    "tiny-Q4_K_M.gguf": GGUF + b"4",
    "tiny-Q8_0.gguf": GGUF + b"8",
    "mmproj-F16.gguf": GGUF + b"p",
    "mtp-tiny.gguf": GGUF + b"d",
}


def test_the_preferred_quantisation_is_fetched_verified_and_offered(
    stand_in, fetched, tmp_path: Path
) -> None:
    repo = stand_in.repository("team/tiny", REPO)

    row = fetched("team/tiny")

    snapshot = in_cache(tmp_path, "team/tiny") / "snapshots" / repo.commit
    assert (row.state, row.error, row.name) == ("done", "", "team/tiny:Q4_K_M")
    assert row.commit == repo.commit
    assert (snapshot / "tiny-Q4_K_M.gguf").read_bytes() == REPO["tiny-Q4_K_M.gguf"]
    assert [path.name for path in snapshot.iterdir()] == ["tiny-Q4_K_M.gguf"]
    preset = Preset.objects.get(name="team/tiny:Q4_K_M")
    assert preset.model_file.path == str(snapshot / "tiny-Q4_K_M.gguf")
    assert (preset.source, preset.model_file.size) == ("cache", len(GGUF) + 1)
    assert Alias.objects.get(name="team/tiny").preset == preset
    assert row.bytes_done == row.bytes_total == len(GGUF) + 1
    assert not parts(tmp_path)


def test_what_was_fetched_is_there_for_huggingface_hub_and_the_other_way_round(
    stand_in, fetched, tmp_path: Path
) -> None:
    stand_in.repository("team/tiny", REPO)
    fetched("team/tiny:Q8_0")

    cache = tmp_path / "cache"
    found = hf_hub_download("team/tiny", "tiny-Q8_0.gguf", cache_dir=cache, local_files_only=True)
    other = hf_hub_download(
        "team/tiny", "tiny-Q4_K_M.gguf", cache_dir=cache, endpoint=stand_in.url, token=False
    )
    asked = len(stand_in.asked_for("/cdn/"))
    row = fetched("team/tiny:Q4_K_M")

    assert Path(found).read_bytes() == REPO["tiny-Q8_0.gguf"]
    assert Path(other).read_bytes() == REPO["tiny-Q4_K_M.gguf"]
    assert row.state == "done"
    assert len(stand_in.asked_for("/cdn/")) == asked, "it was there already"
    assert not scan_cache_dir(cache).warnings


def test_companions_come_on_request(stand_in, fetched, tmp_path: Path) -> None:
    stand_in.repository("team/tiny", REPO)

    fetched("team/tiny", sidecars=["mmproj", "draft"])

    file = ModelFile.objects.get()
    assert file.mmproj.endswith("/mmproj-F16.gguf")
    assert file.draft.endswith("/mtp-tiny.gguf")
    assert Path(file.draft).read_bytes() == REPO["mtp-tiny.gguf"]


def test_all_shards_come(stand_in, fetched) -> None:
    shards = {f"big/m-Q8_0-0000{n}-of-00003.gguf": GGUF + bytes([n]) for n in (1, 2, 3)}
    stand_in.repository("team/big", shards)

    row = fetched("team/big:q8_0")

    assert (row.state, row.name) == ("done", "team/big:Q8_0")
    assert len(row.files) == 3
    path = Path(ModelFile.objects.get().path)
    assert path.name == "m-Q8_0-00001-of-00003.gguf"
    assert len(list(path.parent.iterdir())) == 3


def test_a_small_file_is_verified_by_its_git_checksum(stand_in, fetched) -> None:
    stand_in.repository("team/small", {"small-F32.gguf": b"GGUF and little else"})

    row = fetched("team/small")

    assert row.state == "done"
    assert row.files[0]["checksum"].startswith("git:")


def test_one_file_can_be_named(stand_in, fetched) -> None:
    stand_in.repository("team/tiny", REPO)

    assert fetched("team/tiny:tiny-Q8_0.gguf").name == "team/tiny:Q8_0"


def test_a_second_file_of_the_same_tag_has_a_name_of_its_own(stand_in, fetched) -> None:
    stand_in.repository("team/two", {"a-Q8_0.gguf": GGUF + b"a", "b-Q8_0.gguf": GGUF + b"b"})

    fetched("team/two:a-Q8_0.gguf")
    fetched("team/two:b-Q8_0.gguf")

    assert set(Preset.objects.values_list("name", flat=True)) == {
        "team/two:Q8_0",
        "team/two/b-Q8_0",
    }


def test_a_later_commit_takes_the_name_over(stand_in, fetched) -> None:
    repo = stand_in.repository("team/tiny", {"t-Q8_0.gguf": GGUF})
    fetched("team/tiny")
    repo.files["t-Q8_0.gguf"] = GGUF + b"newer"

    fetched("team/tiny")

    preset = Preset.objects.get()
    assert Path(preset.model_file.path).read_bytes() == GGUF + b"newer"


def test_a_revision_is_fetched_and_leaves_main_alone(stand_in, fetched, tmp_path: Path) -> None:
    repo = stand_in.repository("team/tiny", REPO, branches={"old": ""})

    fetched("team/tiny", revision="old")

    refs = in_cache(tmp_path, "team/tiny") / "refs"
    assert {path.name: path.read_text() for path in refs.iterdir()} == {"old": repo.commit}


@pytest.mark.parametrize(
    ("files", "target", "said"),
    [
        ({"README.md": b"# no model"}, "team/x", "no GGUF file"),
        (REPO, "team/x:Q2_K", "it has Q4_K_M (tiny-Q4_K_M.gguf), Q8_0"),
        ({"m-Q8_0-00001-of-00002.gguf": GGUF}, "team/x", "lacks shards"),
        ({"../m-Q8_0.gguf": GGUF}, "team/x", "not taken"),
    ],
)
def test_a_repository_that_has_no_such_model_says_what_it_has(
    stand_in, fetched, tmp_path: Path, files: dict[str, bytes], target: str, said: str
) -> None:
    stand_in.repository("team/x", files)

    row = fetched(target)

    assert row.state == "failed"
    assert said in row.error
    assert not ModelFile.objects.exists()


def test_a_name_that_somebody_has_given_to_another_file_is_not_taken_away(
    stand_in, fetched, tmp_path: Path
) -> None:
    stand_in.repository("team/tiny", REPO)
    mine = ModelFile.objects.create(path=str(tmp_path / "mine.gguf"))
    Preset.objects.create(name="team/tiny:Q4_K_M", model_file=mine)

    row = fetched("team/tiny")

    assert row.state == "done"
    assert "not offered under its name" in row.error
    assert Preset.objects.get().model_file == mine


def test_a_token_of_its_own_opens_a_private_repository_and_is_gone_afterwards(
    stand_in, fetched, settings, tmp_path: Path
) -> None:
    stand_in.repository("team/secret", REPO, private=True)

    row = fetched("team/secret", token="hf_right")

    assert row.state == "done"
    assert not list((tmp_path / "var" / "downloads").glob("*.token"))
    assert "hf_right" not in str(Download.objects.values().get())
    assert [headers["authorization"] for headers in stand_in.asked_for("/resolve/")]
    assert not any("authorization" in headers for headers in stand_in.asked_for("/cdn/"))


@pytest.mark.parametrize("fields", [{}, {"token": "hf_wrong"}])
@pytest.mark.parametrize("kind", ["private", "gated"])
def test_without_the_right_token_it_says_that_one_is_needed(
    stand_in, fetched, kind: str, fields: dict[str, str]
) -> None:
    stand_in.repository("team/secret", REPO, **{kind: True})

    row = fetched("team/secret", **fields)

    assert row.state == "failed"
    assert "token" in row.error
