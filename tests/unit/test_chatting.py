"""A conversation over HTTP: what stays in it, and what is said of an answer that is none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from routerproj.chatting import Conversation, Figures, Refusal
from routerproj.management.commands.chat import harmless


class FakeGateway(ThreadingHTTPServer):
    """Answers each question with the next of `answers`: a status, and bytes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, bytes]] = []
        self.asked: list[dict[str, object]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeGateway

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(json.loads(body))
        status, answer = self.server.answers.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def event(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
COUNTED = b'data: {"choices": [], "usage": {"completion_tokens": 2}}\n\n'


def test_each_question_goes_with_all_that_was_said_before(gateway: FakeGateway) -> None:
    gateway.answers = [(200, event("a") + event("b") + COUNTED + DONE), (200, event("c") + DONE)]
    talk, figures = Conversation(gateway.url, "", "m", "Be brief."), Figures()

    assert "".join(piece.text for piece in talk.say("one", figures)) == "ab"
    list(talk.say("two", Figures()))

    assert gateway.asked[1]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "ab"},
        {"role": "user", "content": "two"},
    ]
    assert figures.tokens == 2
    assert figures.first_seconds is not None


def test_a_question_that_is_refused_is_taken_back(gateway: FakeGateway) -> None:
    gateway.answers = [(404, b'{"error": {"message": "no such model", "code": "x"}}')]
    talk = Conversation(gateway.url, "", "m")

    with pytest.raises(Refusal, match="no such model") as refused:
        list(talk.say("one", Figures()))

    assert refused.value.status == 404
    assert talk.messages == []


def test_an_answer_that_is_cut_off_is_no_whole_one_and_stays_as_far_as_it_came(
    gateway: FakeGateway,
) -> None:
    gateway.answers = [(200, event("half"))]
    talk = Conversation(gateway.url, "", "m")

    with pytest.raises(Refusal, match="cut off"):
        list(talk.say("one", Figures()))

    assert talk.messages[-1] == {"role": "assistant", "content": "half"}


def test_an_error_in_the_stream_is_told_in_its_words(gateway: FakeGateway) -> None:
    gateway.answers = [(200, event("a") + b'data: {"error": {"message": "it has crashed"}}\n\n')]

    with pytest.raises(Refusal, match="it has crashed"):
        list(Conversation(gateway.url, "", "m").say("one", Figures()))


def test_where_nobody_listens_it_says_how_a_gateway_is_started() -> None:
    with FakeGateway() as gone:
        url = gone.url

    with pytest.raises(Refusal, match="start the gateway with"):
        list(Conversation(url, "", "m").say("one", Figures()))


def test_what_a_model_says_is_not_obeyed_by_the_terminal() -> None:
    assert harmless("a\x1b[2J\tb\n\u202ec \U0001f468\u200d\U0001f469") == (
        "a\ufffd[2J\tb\n\ufffdc \U0001f468\u200d\U0001f469"
    )
