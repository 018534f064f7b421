"""Plain URLs, and names of Ollama's registry."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from models_registry.downloads import asking, work
from models_registry.errors import ManagementRefused
from models_registry.models import Download, ModelFile, Preset

from .conftest import GGUF, parts, worked

BIG = GGUF * 20


def test_a_url_becomes_a_model_of_its_files_name(stand_in, fetched, tmp_path: Path) -> None:
    stand_in.files["/some/where/tiny-Q8_0.gguf"] = BIG

    row = fetched(f"{stand_in.url}/some/where/tiny-Q8_0.gguf", "url")

    assert (row.state, row.name, row.bytes_total) == ("done", "tiny-Q8_0", len(BIG))
    file = ModelFile.objects.get()
    assert Path(file.path).is_relative_to(tmp_path / "var" / "models")
    assert Path(file.path).name == "tiny-Q8_0.gguf"
    assert Path(file.path).read_bytes() == BIG
    assert (file.source, Preset.objects.get().name) == ("download", "tiny-Q8_0")
    assert not parts(tmp_path)


def test_the_shards_beside_it_come_as_well(stand_in, fetched) -> None:
    for number in (1, 2):
        stand_in.files[f"/m-0000{number}-of-00002.gguf"] = GGUF + bytes([number])

    row = fetched(f"{stand_in.url}/m-00001-of-00002.gguf", "url")

    assert (row.state, len(row.files)) == ("done", 2)


def test_two_addresses_that_end_alike_are_two_models(stand_in, fetched) -> None:
    stand_in.files["/a/model.gguf"] = GGUF + b"a"
    stand_in.files["/b/model.gguf"] = GGUF + b"b"

    names = [fetched(f"{stand_in.url}/{one}/model.gguf", "url").name for one in "aba"]

    assert names == ["model", "model-2", "model"]
    found = {p.name: Path(p.model_file.path).read_bytes()[-1:] for p in Preset.objects.all()}
    assert found == {"model": b"a", "model-2": b"b"}


def test_a_checksum_in_the_url_is_held_against_what_comes(stand_in, fetched) -> None:
    stand_in.files["/m.gguf"] = BIG
    right, wrong = hashlib.sha256(BIG).hexdigest(), "0" * 64

    assert fetched(f"{stand_in.url}/m.gguf#sha256={wrong}", "url").error.count("was promised")
    assert fetched(f"{stand_in.url}/m.gguf#sha256={right}", "url").state == "done"


def test_a_part_goes_on_only_while_the_server_has_the_same_file(
    stand_in, fetched, tmp_path: Path
) -> None:
    """Without a checksum there is nothing else to tell two states of a file apart."""
    stand_in.files["/m.gguf"] = BIG
    stand_in.fault("/m.gguf", "none")
    stand_in.fault("/m.gguf", "half")
    stand_in.fault("/m.gguf", "503", times=-1)
    row = fetched(f"{stand_in.url}/m.gguf", "url")
    assert (row.state, len(parts(tmp_path))) == ("failed", 1)
    stand_in.faults.clear()
    newer = bytes(reversed(BIG[4:]))
    stand_in.files["/m.gguf"] = b"GGUF" + newer

    Download.objects.update(state="queued")
    row = worked(row)

    assert row.state == "done"
    assert Path(ModelFile.objects.get().path).read_bytes() == b"GGUF" + newer


def test_a_part_of_the_same_file_goes_on(stand_in, fetched, tmp_path: Path) -> None:
    stand_in.files["/m.gguf"] = BIG
    stand_in.fault("/m.gguf", "none")
    stand_in.fault("/m.gguf", "half")
    stand_in.fault("/m.gguf", "503", times=-1)
    row = fetched(f"{stand_in.url}/m.gguf", "url")
    stand_in.faults.clear()

    Download.objects.update(state="queued")
    row = worked(row)

    assert row.state == "done"
    assert stand_in.asked_for("/m.gguf")[-1]["range"] == f"bytes={len(BIG) // 2}-"


def test_a_url_of_a_host_that_is_not_allowed_is_not_asked(stand_in, fetched, settings) -> None:
    stand_in.files["/m.gguf"] = BIG
    settings.CORRAL_DOWNLOAD_HOSTS = ["huggingface.co"]

    with pytest.raises(ManagementRefused, match="CORRAL_DOWNLOAD_HOSTS") as refused:
        asking.create("url", f"{stand_in.url}/m.gguf", asked_by="a test")

    assert (refused.value.code, refused.value.param) == ("validation_failed", "target")
    assert not Download.objects.exists()
    assert not stand_in.asked


def test_a_registry_that_is_not_allowed_is_not_asked(db, settings) -> None:
    settings.CORRAL_DOWNLOAD_HOSTS = ["huggingface.co"]

    with pytest.raises(ManagementRefused, match=r"elsewhere\.example is not among the hosts"):
        asking.create("ollama", "elsewhere.example/team/m:8b", asked_by="a test")


def test_a_host_that_is_no_longer_allowed_is_not_asked(stand_in, fetched, settings) -> None:
    stand_in.files["/m.gguf"] = BIG
    row = asking.create("url", f"{stand_in.url}/m.gguf", asked_by="a test")
    settings.CORRAL_DOWNLOAD_HOSTS = ["huggingface.co"]

    work.work(row.pk)

    row.refresh_from_db()
    assert row.state == "failed"
    assert "CORRAL_DOWNLOAD_HOSTS" in row.error
    assert not stand_in.asked


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:1/m.gguf",
        "http://169.254.169.254/latest/meta-data",
        "https://127.0.0.1/m.gguf",
        "file:///etc/passwd",
        "ftp://host/m.gguf",
    ],
)
@pytest.mark.parametrize("kind", ["url", "ollama"])
def test_a_redirect_to_a_private_address_is_not_followed(
    stand_in, fetched, monkeypatch: pytest.MonkeyPatch, kind: str, location: str
) -> None:
    stand_in.redirects["/m.gguf"] = location
    stand_in.redirects["/v2/library/m/manifests/latest"] = location
    connected: list[object] = []
    connect = socket.create_connection
    monkeypatch.setattr(
        socket, "create_connection", lambda to, **more: connected.append(to) or connect(to, **more)
    )

    row = fetched(f"{stand_in.url}/m.gguf" if kind == "url" else "m", kind)

    assert row.state == "failed"
    assert all(f"http://{host}:{port}" == stand_in.url for host, port in connected)


def test_redirects_in_a_circle_end(stand_in, fetched) -> None:
    stand_in.redirects["/m.gguf"] = "/m.gguf"

    assert "redirects more than" in fetched(f"{stand_in.url}/m.gguf", "url").error


def test_an_ollama_name_becomes_its_weights_and_its_projector(
    stand_in, fetched, tmp_path: Path
) -> None:
    layers = {"model": BIG, "projector": GGUF + b"p", "params": b"{}", "license": b"MIT"}
    stand_in.ollama("library/tiny", "1b", layers)

    row = fetched("tiny:1b", "ollama")

    assert (row.state, row.name) == ("done", "tiny:1b")
    assert row.error == "not taken from Ollama's model: license, params"
    file = ModelFile.objects.get()
    assert Path(file.path).read_bytes() == BIG
    assert Path(file.path).name == f"sha256-{hashlib.sha256(BIG).hexdigest()}.gguf"
    assert Path(file.mmproj).read_bytes() == GGUF + b"p"
    assert not parts(tmp_path)


def test_two_tags_of_one_blob_share_it(stand_in, fetched) -> None:
    stand_in.ollama("library/tiny", "a", {"model": BIG})
    stand_in.ollama("library/tiny", "b", {"model": BIG})

    fetched("tiny:a", "ollama")
    fetched("tiny:b", "ollama")

    assert len(stand_in.asked_for("/blobs/")) == 1
    assert {preset.name for preset in ModelFile.objects.get().presets.all()} == {"tiny:a", "tiny:b"}


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (None, "404"),
        (b"<html>", "no manifest"),
        (b'{"layers": 7}', "no manifest"),
        (b'{"layers": []}', "has no GGUF"),
        (
            b'{"layers": [{"mediaType": "application/vnd.ollama.image.model",'
            b' "digest": "sha256:../../x", "size": 5}]}',
            "without a usable digest",
        ),
    ],
)
def test_a_manifest_that_cannot_be_used_is_said(
    stand_in, fetched, manifest: bytes | None, said: str
) -> None:
    if manifest is not None:
        stand_in.manifests["library/m/latest"] = manifest

    row = fetched("m", "ollama")

    assert row.state == "failed"
    assert said in row.error


def test_what_a_kill_left_before_its_name_goes_at_the_next_start(
    db, stand_in, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The kill comes between making the new link, or the new ref, and putting it in its place."""
    stand_in.repository("user/repo", {"m-Q8_0.gguf": GGUF})

    replace = Path.replace
    row = asking.create("hub", "user/repo", asked_by="a test")
    for is_link in (True, False):

        def killed(self: Path, target: Path, is_link: bool = is_link) -> Path:
            if ".corral-" in self.name and self.is_symlink() == is_link:
                raise SystemExit
            return replace(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", killed)
            with pytest.raises(SystemExit):
                work.work(row.pk)
        [left] = tmp_path.rglob(".corral-*")
        os.utime(left, (1, 1), follow_symlinks=False)  # as of a process before this one

    assert worked(row).state == "done"
    assert not [*tmp_path.rglob(".corral-*")]
