"""A client of conversations: it loses its connection, and comes back for the rest."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from tests.support.asking import CHAT, Answer, Client, chat_body

DONE = b"data: [DONE]\n\n"


@contextmanager
def asked(
    client: Client, id: str, model: str, **fields: Any
) -> Iterator[http.client.HTTPConnection]:
    """A conversation's request has been sent; leaving the block loses the connection."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=120)
    headers = {
        "Authorization": f"Bearer {client.key}",
        "Content-Type": "application/json",
        "X-Conversation-Id": id,
    }
    fields = {"stream": True, "temperature": 0, "seed": 1, **fields}
    try:
        connection.request("POST", CHAT, json.dumps(chat_body(model, **fields)), headers)
        yield connection
    finally:
        connection.close()


def first_bytes(connection: http.client.HTTPConnection, count: int = 200) -> bytes:
    response = connection.getresponse()
    assert response.status == 200, response.read()
    received = b""
    while len(received) < count:
        received += response.read1(64)
    return received


def all_bytes(connection: http.client.HTTPConnection) -> bytes:
    response = connection.getresponse()
    assert response.status == 200, response.read()
    return response.read()


def resumed(client: Client, id: str, offset: int = 0, key: str | None = None) -> Answer:
    """Read to its end."""
    return client.request("GET", f"/v1/stream?conv_id={quote(id)}&from={offset}", key=key)


def stopped(client: Client, id: str, key: str | None = None) -> int:
    return client.request("DELETE", f"/v1/stream?conv_id={quote(id)}", key=key).status


def looked_up(client: Client, *ids: str, key: str | None = None) -> dict[str, dict[str, Any]]:
    body = json.dumps({"conversation_ids": ids}).encode()
    found = client.request("POST", "/v1/streams/lookup", body, key=key).json
    return {held["conversation_id"]: held for held in found}


def text_of(stream: bytes) -> str:
    """What the model said, of a whole stream."""
    events = [line[6:] for line in stream.split(b"\n") if line.startswith(b"data: {")]
    choices = [choice for event in events for choice in json.loads(event).get("choices") or []]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def has_ended(client: Client, id: str) -> bool:
    held = looked_up(client, id).get(id)
    return held is not None and held["is_done"]
