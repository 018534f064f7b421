"""Servers that answer oddly: a download tells what was wrong, and never makes one model of two."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from models_registry.downloads import asking, shown
from models_registry.errors import ManagementRefused

from .conftest import GGUF

SIZE = 2_000_000
DIGEST = "sha256:" + "a" * 64

Answer = Callable[[str], bytes]


def said(status: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1") + body


def ends(text: str) -> bytes:
    return said("200 OK", f"Content-Length: {len(text)}", body=text.encode())


def listing(file: dict[str, object]) -> bytes:
    """A hub's, of one file."""
    return ends(json.dumps({"id": "team/m", "sha": "c" * 40, "siblings": [file]}))


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Its URL. Each connection gets what `answer` makes of its request, as it is."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connected, _ = listening.accept()
            except OSError:
                return
            with closing(connected):
                asked = b""
                while b"\r\n\r\n" not in asked and (more := connected.recv(65536)):
                    asked += more
                if asked:
                    connected.sendall(answer(asked.decode()))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def of_two_states(before: bytes, after: bytes, *marks: str) -> Answer:
    """A file that changes after its first half was sent, from a server that does not heed
    If-Range."""
    asked: list[str] = []

    def answer(request: str) -> bytes:
        asked.append(request)
        early = len(asked) <= 2
        content = before if early else after
        mark = [f"ETag: {marks[0 if early else 1]}"] if marks else []
        start = re.search(r"Range: bytes=(\d+)-(\d*)", request)
        if start is None:
            length = f"Content-Length: {len(content)}"
            return said("200 OK", length, *mark, body=content[: SIZE // 2] if early else content)
        part = content[int(start[1]) : int(start[2]) + 1 if start[2] else None]
        where = f"bytes {start[1]}-{int(start[1]) + len(part) - 1}/{len(content)}"
        length = f"Content-Length: {len(part)}"
        return said("206 Partial", f"Content-Range: {where}", length, *mark, body=part)

    return answer


@pytest.mark.parametrize("marks", [(), ('"one"', '"two"')])
def test_a_file_that_changes_between_two_tries_begins_anew(
    stand_in, fetched, settings, marks: tuple[str, ...]
) -> None:
    before, after = (b"GGUF" + letter * (SIZE - 4) for letter in (b"a", b"b"))
    with serving(of_two_states(before, after, *marks)) as url:
        settings.CORRAL_DOWNLOAD_HOSTS = [url]
        row = fetched(f"{url}/m.gguf", "url")

    assert row.state == "done"
    assert Path(row.files[0]["at"]).read_bytes() == after


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (said("302 Found", "Location: http://[::1/m.gguf"), "redirects to what is no URL"),
        (said("302 Found", f"Location: https://{'a' * 70}.test/m.gguf"), "no name of a host"),
        (said("302 Found", "Location: https://a..test/m.gguf"), "no name of a host"),
        (said("206 Partial", "Content-Range: bytes 0-3/" + "9" * 5000), "5000 digits"),
        (said(f"400 {'<b>' * 999}"), "answers 400 <b>"),
        (b"\x00\x01 hello\r\n\r\n", " hello"),
    ],
)
def test_an_odd_answer_is_told_in_a_few_printable_words(
    stand_in, fetched, settings, answer: bytes, words: str
) -> None:
    with serving(lambda request: answer) as url:
        settings.CORRAL_DOWNLOAD_HOSTS = [url, "*.test"]
        row = fetched(f"{url}/m.gguf", "url")

    assert row.state == "failed"
    assert words in row.error
    assert len(row.error) < 300
    assert row.error.isprintable()


def test_a_location_with_raw_letters_is_followed(stand_in, fetched, settings) -> None:
    def answer(request: str) -> bytes:
        if " /m%20%C3%B6.gguf " in request:
            return said("200 OK", f"Content-Length: {len(GGUF)}", body=GGUF)
        return said("302 Found", "Location: /m \u00c3\u00b6.gguf")

    with serving(answer) as url:
        settings.CORRAL_DOWNLOAD_HOSTS = [url]
        assert fetched(f"{url}/m.gguf", "url").state == "done"


@pytest.mark.parametrize("size", ["12", -5, 1.5, True])
def test_a_hub_that_states_no_size_is_told(stand_in, fetched, settings, size: object) -> None:
    file = {"rfilename": "m-Q4_0.gguf", "size": size, "blobId": "a" * 40}
    with serving(lambda request: listing(file)) as url:
        settings.CORRAL_HF_ENDPOINT = url
        assert "no usable size of m-Q4_0.gguf" in fetched("team/m").error


@pytest.mark.parametrize("name", [5, ["x"], "x" * 260 + ".gguf"])
def test_a_file_without_a_usable_name_is_not_fetched(
    stand_in, fetched, settings, tmp_path: Path, name: object
) -> None:
    file = {"rfilename": name, "size": len(GGUF), "blobId": "a" * 40}
    with serving(lambda request: listing(file)) as url:
        settings.CORRAL_HF_ENDPOINT = url
        row = fetched("team/m")

    assert row.state == "failed"
    assert "something broke" not in row.error
    assert not list(tmp_path.rglob("blobs"))


@pytest.mark.parametrize(
    "manifest",
    [
        '{"layers": [{"mediaType": ["x"]}]}',
        "[" * 100_000,
        json.dumps(
            {
                "layers": [
                    {
                        "mediaType": "application/vnd.ollama.image.model",
                        "digest": DIGEST,
                        "size": True,
                    }
                ]
            }
        ),
    ],
)
def test_a_manifest_that_is_none_is_told(stand_in, fetched, settings, manifest: str) -> None:
    with serving(lambda request: ends(manifest)) as url:
        settings.CORRAL_OLLAMA_REGISTRY = url
        row = fetched("m", "ollama")

    assert "no manifest" in row.error or "without a usable digest or size" in row.error


@pytest.mark.parametrize("token", ["t\u00f6ken", "two words"])
def test_a_token_that_no_header_carries_is_refused(db, stand_in, token: str) -> None:
    with pytest.raises(ManagementRefused, match="ASCII"):
        asking.create("hub", "team/m", asked_by="a test", token=token)


def test_what_stands_behind_the_question_mark_is_not_shown_to_every_key(
    stand_in, fetched, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in.files["/m.gguf"] = GGUF
    with caplog.at_level("INFO"):
        row = fetched(f"{stand_in.url}/m.gguf?signature=hunter2", "url")

    assert row.state == "done"
    assert list(shown.progress_of(row)["files"]) == [f"{stand_in.url}/m.gguf"]
    assert "offered as m" in caplog.text
    assert "hunter2" not in caplog.text
