"""What a hub can do wrong: nothing half or false ever gets a model's name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from models_registry.downloads import transfer, wire, work
from models_registry.models import ModelFile

from .conftest import GGUF, in_cache, parts, worked

FILE = "m-Q8_0.gguf"
BIG = GGUF * 20


@pytest.fixture
def repo(stand_in):
    return stand_in.repository("team/m", {FILE: BIG})


def fetched_well(tmp_path: Path, row) -> bool:
    path = Path(ModelFile.objects.get().path)
    return row.state == "done" and path.read_bytes() == BIG and not parts(tmp_path)


def test_half_a_file_goes_on_where_it_ended(stand_in, repo, fetched, tmp_path: Path) -> None:
    stand_in.fault("/cdn/", "half")

    row = fetched("team/m")

    assert fetched_well(tmp_path, row)
    assert [headers.get("range") for headers in stand_in.asked_for("/cdn/")] == [
        None,
        f"bytes={len(BIG) // 2}-",
    ]


def test_a_server_without_ranges_begins_anew(stand_in, repo, fetched, tmp_path: Path) -> None:
    stand_in.fault("/cdn/", "half")
    stand_in.fault("/cdn/", "no-ranges")

    assert fetched_well(tmp_path, fetched("team/m"))


def test_a_wrong_checksum_is_fetched_once_more(stand_in, repo, fetched, tmp_path: Path) -> None:
    stand_in.fault("/cdn/", "wrong")

    assert fetched_well(tmp_path, fetched("team/m"))


def test_twice_a_wrong_checksum_is_a_failure_with_the_figures(
    stand_in, repo, fetched, tmp_path: Path
) -> None:
    stand_in.fault("/cdn/", "wrong", times=2)

    row = fetched("team/m")

    assert row.state == "failed"
    assert f"the SHA-256 of its {len(BIG)} bytes is " in row.error
    assert "was promised" in row.error
    assert not ModelFile.objects.exists()
    assert not list(in_cache(tmp_path, "team/m").rglob("*.gguf"))
    assert all(path.stat().st_size == 0 for path in parts(tmp_path))


def test_a_page_instead_of_a_model_is_refused_at_once(stand_in, repo, fetched) -> None:
    stand_in.fault("/cdn/", "html", times=-1)

    row = fetched("team/m")

    assert row.state == "failed"
    assert "a page (HTML) instead of a model" in row.error
    assert len(stand_in.asked_for("/cdn/")) == 1


def test_what_does_not_begin_as_a_gguf_is_refused(stand_in, fetched) -> None:
    stand_in.repository("team/zip", {FILE: b"PK" + BIG})

    row = fetched("team/zip")

    assert row.state == "failed"
    assert "is no GGUF: it begins with b'PKGG'" in row.error


@pytest.mark.parametrize("where", ["/api/models", "/resolve/", "/cdn/"])
@pytest.mark.parametrize("status", ["429", "500", "503", "408"])
def test_a_hub_in_trouble_is_asked_again(
    stand_in, repo, fetched, tmp_path: Path, where: str, status: str
) -> None:
    stand_in.fault(where, status)

    assert fetched_well(tmp_path, fetched("team/m"))


@pytest.mark.parametrize("where", ["/api/models", "/cdn/"])
def test_the_time_that_a_hub_asks_for_is_given_to_it(
    stand_in, repo, fetched, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(wire.Line, "wait", lambda line, seconds: waited.append(seconds))
    stand_in.fault(where, "429", retry_after="17")

    row = fetched("team/m")

    assert row.state == "done"
    assert waited == [17]


def test_a_hub_that_stays_in_trouble_fails_the_download_with_its_answer(
    stand_in, repo, fetched
) -> None:
    stand_in.fault("/cdn/", "503", times=-1)

    row = fetched("team/m")

    assert row.state == "failed"
    assert "503" in row.error
    assert "3 tries" in row.error


@pytest.mark.parametrize("where", ["/cdn/"])
def test_a_hub_that_says_nothing_is_given_up_and_asked_again(
    stand_in, repo, fetched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(wire, "READ_TIMEOUT_SECONDS", 0.2)
    stand_in.fault(where, "hang")

    assert fetched_well(tmp_path, fetched("team/m"))


def test_a_repository_that_is_not_there_is_a_failure_at_once(stand_in, fetched) -> None:
    row = fetched("team/nothing")

    assert row.state == "failed"
    assert "no repository team/nothing" in row.error


def test_a_revision_that_is_not_there_is_a_failure(stand_in, repo, fetched) -> None:
    assert "no such revision" in fetched("team/m", revision="v9").error


def test_an_answer_that_is_no_list_of_files_is_a_failure(stand_in, repo, fetched) -> None:
    stand_in.fault("/api/models", "200", times=-1)

    row = fetched("team/m")

    assert row.state == "failed"
    assert "no list of files" in row.error


def test_no_room_by_a_patched_figure_is_found_out_before_a_byte_is_fetched(
    stand_in, repo, fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "free_bytes", lambda folder: transfer.KEPT_FREE + 1000)

    row = fetched("team/m")

    assert row.state == "failed"
    assert f"{len(BIG)} bytes are still to come" in row.error
    assert not stand_in.asked_for("/cdn/")


def test_a_disk_that_is_patched_to_be_nearly_full_fails_it_and_a_retry_goes_on(
    stand_in, repo, fetched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(transfer, "LOOK_AT_DISK_EVERY", len(BIG) // 2)
        patched.setattr(transfer, "free_bytes", lambda folder: 0)
        row = fetched("team/m")
    kept = sum(path.stat().st_size for path in parts(tmp_path))

    assert row.state == "failed"
    assert "there is no room" in row.error
    assert f"{len(BIG) - kept} bytes are missing" in row.error
    assert kept >= len(BIG) // 2

    row.state = "queued"
    row.save()
    assert fetched_well(tmp_path, worked(row))
    assert stand_in.asked_for("/cdn/")[-1]["range"] == f"bytes={kept}-"


@pytest.mark.parametrize("left", [b"GGUF" + b"?" * 1000, b"?" * 1000, b"GG", b"GGUF" * len(BIG)])
def test_a_part_that_another_program_left_wrong_is_found_out(
    stand_in, repo, fetched, tmp_path: Path, left: bytes
) -> None:
    blob = in_cache(tmp_path, "team/m") / "blobs" / f"{hashlib.sha256(BIG).hexdigest()}.incomplete"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(left)

    assert fetched_well(tmp_path, fetched("team/m"))
