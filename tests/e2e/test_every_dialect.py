"""The same is said in every dialect, whole and streamed; what one has no word for is refused."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.dialects import Said, Unsaid, Wish, ask, chat
from tests.support.gateway import Gateway
from tests.support.speaking import SCHEMA, picture

pytestmark = [pytest.mark.engine, pytest.mark.slow]

CHATS = ("chat", "responses", "anthropic", "ollama chat", "ollama generate")
TEXTS = ("completions", "ollama raw")
"""Without a chat template."""
CALLERS = ("chat", "responses", "anthropic", "ollama chat")
SEEING = Wish(picture=picture(), tokens=3)
CALLING = Wish(tool="now", tokens=90)
FORMED = Wish(schema=SCHEMA, tokens=60)


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def first(speaking: Gateway) -> dict[str, Said]:
    """What OpenAI's dialects say, whole: the others are measured by it."""
    asked = {
        "text": ("chat", Wish(), "alpha"),
        "raw": ("completions", Wish(), "alpha"),
        "thought": ("chat", Wish(), "thinks"),
        "seen": ("chat", SEEING, "sees"),
        "blind": ("chat", Wish(tokens=3), "sees"),
        "called": ("chat", CALLING, "alpha"),
        "formed": ("chat", FORMED, "alpha"),
    }
    return {
        name: ask(speaking.client, dialect, wish, model, stream=False)
        for name, (dialect, wish, model) in asked.items()
    }


@pytest.mark.parametrize("dialect", CHATS)
def test_a_text_is_the_same(speaking: Gateway, first, dialect: str, stream: bool) -> None:
    said = ask(speaking.client, dialect, Wish(), "alpha", stream=stream)

    assert said.text == first["text"].text != ""
    assert said.stop in ("limit", "unsaid")


@pytest.mark.parametrize("dialect", TEXTS)
def test_so_is_one_without_a_template(speaking: Gateway, first, dialect: str, stream: bool) -> None:
    said = ask(speaking.client, dialect, Wish(), "alpha", stream=stream)

    assert (said.text, said.stop) == (first["raw"].text, "limit")
    assert said.text not in ("", first["text"].text)


@pytest.mark.parametrize("dialect", CHATS)
def test_thoughts_stand_apart(speaking: Gateway, first, dialect: str, stream: bool) -> None:
    said = ask(speaking.client, dialect, Wish(), "thinks", stream=stream)

    assert said.thought == first["thought"].thought != ""
    assert said.text == ""


@pytest.mark.parametrize("dialect", CHATS)
def test_an_image_is_seen(speaking: Gateway, first, dialect: str, stream: bool) -> None:
    said = ask(speaking.client, dialect, SEEING, "sees", stream=stream)

    assert said.text == first["seen"].text
    assert said.text not in ("", first["blind"].text)


@pytest.mark.parametrize("dialect", CHATS)
def test_a_model_without_a_projector_takes_no_image(
    speaking: Gateway, dialect: str, stream: bool
) -> None:
    with pytest.raises(Unsaid, match="support") as refused:
        ask(speaking.client, dialect, SEEING, "alpha", stream=stream)

    assert refused.value.status == 400


@pytest.fixture(scope="module")
def canary() -> Iterator[tuple[str, list[str]]]:
    """(its address, what was asked of it): a server of this machine's that nobody may be led to."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = base64.b64decode(picture())
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="canary")
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("dialect", CHATS)
def test_nobody_is_led_to_an_address_by_an_image(
    speaking: Gateway, canary: tuple[str, list[str]], dialect: str, stream: bool
) -> None:
    address, asked = canary
    with pytest.raises(Unsaid, match="address") as refused:
        ask(speaking.client, dialect, Wish(address=f"{address}/x.png"), "sees", stream=stream)

    assert refused.value.status == 400
    assert asked == []


def test_a_child_would_go_there(speaking: Gateway, canary: tuple[str, list[str]]) -> None:
    """Or the test before would prove nothing."""
    address, asked = canary
    ask(speaking.client, "chat", Wish(tokens=1), "sees", stream=False)
    body = chat(Wish(address=f"{address}/would.png", tokens=1))
    with socket.socket(socket.AF_UNIX) as child:
        child.settimeout(60)
        child.connect(speaking.control("acquire", preset="sees")["address"])
        sent = json.dumps(body).encode()
        child.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(sent) + sent
        )
        assert b" 200 " in child.recv(1 << 16).partition(b"\r\n")[0]

    assert asked == ["/would.png"]
    asked.clear()


@pytest.mark.parametrize("dialect", CALLERS)
def test_tools_are_called_several_at_once(
    speaking: Gateway, first, dialect: str, stream: bool
) -> None:
    said = ask(speaking.client, dialect, CALLING, "alpha", stream=stream)

    assert len(first["called"].calls) > 1
    assert said.calls[: len(first["called"].calls)] == first["called"].calls
    assert set(first["called"].calls and [name for name, _ in said.calls]) == {"now"}
    assert said.text == ""


@pytest.mark.parametrize("dialect", ["chat", "responses", "ollama chat", "ollama generate"])
def test_an_answer_has_the_form_of_a_schema(
    speaking: Gateway, first, dialect: str, stream: bool
) -> None:
    said = ask(speaking.client, dialect, FORMED, "alpha", stream=stream)

    assert said.text == first["formed"].text
    assert json.loads(said.text)["city"] in ("Oslo", "Rome")


@pytest.mark.parametrize("dialect", [*CHATS, *TEXTS])
def test_an_answer_ends_where_it_was_told_to(
    speaking: Gateway, first, dialect: str, stream: bool
) -> None:
    whole = first["raw" if dialect in TEXTS else "text"].text
    said = ask(speaking.client, dialect, Wish(stop=whole[2]), "alpha", stream=stream)

    assert said.text == whole[: whole.index(whole[2])]
    assert said.stop in ("end", "unsaid")


@pytest.mark.parametrize("dialect", ["chat", "ollama chat", "ollama generate", *TEXTS])
def test_probabilities_are_told(speaking: Gateway, dialect: str, stream: bool) -> None:
    said = ask(speaking.client, dialect, Wish(logprobs=True), "alpha", stream=stream)

    assert said.logprobs == 4


@pytest.mark.parametrize(
    ("dialect", "wish", "words"),
    [
        ("anthropic", FORMED, "tool_choice"),
        ("responses", Wish(logprobs=True), "logprobs"),
    ],
)
def test_what_a_dialect_has_no_word_for_is_refused(
    speaking: Gateway, dialect: str, wish: Wish, words: str, stream: bool
) -> None:
    with pytest.raises(Unsaid, match=words) as refused:
        ask(speaking.client, dialect, wish, "alpha", stream=stream)

    assert refused.value.status == 400


@pytest.mark.parametrize("dialect", [*CHATS, *TEXTS])
def test_more_than_the_context_holds_is_refused(
    speaking: Gateway, dialect: str, stream: bool
) -> None:
    with pytest.raises(Unsaid, match="context size") as refused:
        ask(speaking.client, dialect, Wish(text="a " * 9000), "alpha", stream=stream)

    assert refused.value.status == 400


@pytest.mark.parametrize("dialect", [*CHATS, *TEXTS])
def test_a_model_that_is_not_there_is_404(speaking: Gateway, dialect: str, stream: bool) -> None:
    with pytest.raises(Unsaid, match="nobody") as refused:
        ask(speaking.client, dialect, Wish(), "nobody", stream=stream)

    assert refused.value.status == 404
