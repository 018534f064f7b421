"""One request of a download: where it connects to, what it takes for an answer, how it ends."""

from __future__ import annotations

import socket
import time
from contextlib import closing
from typing import Any

import pytest

from models_registry.downloads.addresses import rules_of
from models_registry.downloads.planned import Refused
from models_registry.downloads.wire import Ended, Line, Trouble, ask, retry_after_seconds
from tests.support.hub import hub


def test_a_name_that_means_another_address_a_moment_later_is_connected_to_as_it_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS rebinding: first a public address, then the metadata service's."""
    answers = iter(["8.8.8.8", "169.254.169.254", "169.254.169.254"])
    connected: list[Any] = []

    def name_server(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    def connect(to: Any, **_: Any) -> socket.socket:
        connected.append(to)
        raise ConnectionRefusedError(111, "nobody is there")

    monkeypatch.setattr(socket, "getaddrinfo", name_server)
    monkeypatch.setattr(socket, "create_connection", connect)

    with pytest.raises(Trouble, match="nobody is there"):
        ask("https://rebinding.test/m.gguf", rules_of(["rebinding.test"]), Line(), {})

    assert connected == [("8.8.8.8", 443)]


def test_a_secret_goes_to_the_first_origin_only() -> None:
    with hub() as serving:
        serving.files["/there"] = b"here"
        serving.redirects["/asked"] = f"{serving.cdn_url}/there"
        rules = rules_of([serving.url, serving.cdn_url])
        secret = {"Authorization": "Bearer x"}
        with closing(ask(f"{serving.url}/asked", rules, Line(), {}, secret=secret)) as answer:
            assert answer.whole() == b"here"

        assert serving.asked_for("/asked")[0]["authorization"] == "Bearer x"
        assert "authorization" not in serving.asked_for("/there")[0]


def test_one_that_is_ended_before_it_begins_asks_nobody() -> None:
    line = Line()
    line.end()
    with hub() as serving, pytest.raises(Ended):
        ask(f"{serving.url}/x", rules_of([serving.url]), line, {})

    assert not serving.asked


def test_an_answer_that_is_long_where_a_short_one_belongs_is_refused() -> None:
    with hub() as serving:
        serving.files["/x"] = bytes((8 << 20) + 1)
        answer = ask(f"{serving.url}/x", rules_of([serving.url]), Line(), {})
        with closing(answer), pytest.raises(Refused, match="where few belong"):
            answer.whole()


def test_a_server_says_when_to_come_again_in_seconds_or_by_a_date() -> None:
    soon = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 100))

    assert retry_after_seconds("7") == 7
    assert 90 < (retry_after_seconds(soon) or 0) <= 100
    assert retry_after_seconds("Thu, 01 Jan 1970 00:00:00 GMT") == 0
    assert [retry_after_seconds(text) for text in ("", "soon", "-1", "1.5")] == [None] * 4
