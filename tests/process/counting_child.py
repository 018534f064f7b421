"""A server that answers like OpenAI's and keeps an append-only count of its own:

    python counting_child.py SOCKET COUNT

A line `request read answered` is in COUNT before the end of an answer is sent. Its answers have as
many tokens as are asked for, and tell their usage as OpenAI's do: a stream only to who asks.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

COUNT = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if head[0].startswith("GET"):
            whole(writer, {"status": "ok"})
        else:
            await answer(writer, headers["x-request-id"], json.loads(body))
        await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def answer(writer: asyncio.StreamWriter, id: str, body: dict[str, Any]) -> None:
    read, tokens = len(body["messages"][0]["content"]), body["max_tokens"]
    usage = {"prompt_tokens": read, "completion_tokens": tokens, "total_tokens": read + tokens}
    if not body.get("stream"):
        count(id, read, tokens)
        whole(writer, {"choices": [{"message": {"content": "x" * tokens}}], "usage": usage})
        return
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    for _ in range(tokens):
        event(writer, {"choices": [{"delta": {"content": "x"}}]})
        await asyncio.sleep(0)
    await writer.drain()
    count(id, read, tokens)
    if body.get("stream_options", {}).get("include_usage"):
        event(writer, {"choices": [], "usage": usage})
    writer.write(b"data: [DONE]\n\n")


def count(id: str, read: int, tokens: int) -> None:
    os.write(COUNT, f"{id} {read} {tokens}\n".encode())


def event(writer: asyncio.StreamWriter, said: object) -> None:
    writer.write(b"data: " + json.dumps(said).encode() + b"\n\n")


def whole(writer: asyncio.StreamWriter, said: object) -> None:
    data = json.dumps(said).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
    writer.write(head.encode() + b"\r\nconnection: close\r\n\r\n" + data)


async def main() -> None:
    server = await asyncio.start_unix_server(serve, sys.argv[1])
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
