"""A server that answers like OpenAI's and knows nothing of Corral, with faults on demand.

    python openai_stand_in.py (--port PORT | --socket PATH) [--late S] [--never] [--garbage]
        [--deaf] [--helpers] [--daemon] [--die-at-once CODE] [--steal] [--lies]

`--late`: healthy only after so long. `--never`: never. `--garbage`: what it answers is no HTTP.
`--deaf`: ignores SIGTERM. `--helpers`: forks two processes that ignore it, one in a session of its
own. `--daemon`: one more that has forked twice. `--steal`: the port is taken by another process,
not of its tree, the first time. `--lies`: prints llama.cpp's reports. Pids go to
$PIDS/<pid>, or to what `--pids` names.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import socketserver
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

STARTED = time.monotonic()
OPTIONS = argparse.Namespace()


def note(pid: int | None = None) -> None:
    if folder := OPTIONS.pids or os.environ.get("PIDS"):
        Path(folder, str(pid or os.getpid())).touch()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "a client"

    def log_message(self, format: str, *args: object) -> None:
        print(format % args, flush=True)

    def do_GET(self) -> None:
        ready = not OPTIONS.never and time.monotonic() - STARTED >= OPTIONS.late
        self.answer(200 if ready else 503, {"status": "ok" if ready else "loading"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if OPTIONS.garbage:
            self.wfile.write(b"\0\1 this is no HTTP at all\r\n\r\n")
            self.close_connection = True
        elif "fail" in json.dumps(body):
            self.answer(418, {"error": {"message": "I am a teapot", "code": "teapot"}})
        elif body.get("stream"):
            self.stream(body)
        else:
            self.answer(200, said(body, "Hello") | {"usage": USAGE})

    def answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, body: dict[str, object]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for word in ("Hel", "lo"):
            self.event(said(body, word))
        self.event({"choices": [], "usage": USAGE})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, body: object) -> None:
        self.wfile.write(b"data: " + json.dumps(body).encode() + b"\n\n")


USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}


def said(body: dict[str, object], text: str) -> dict[str, object]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    return {"object": "chat.completion", "model": body.get("model"), "choices": [choice]}


class Tcp(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True


class Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def fork_helpers(*, daemon: bool) -> None:
    for own_session in (False, True):
        if os.fork() == 0:
            stay(own_session=own_session)
    if daemon and (middle := os.fork()) == 0:
        if os.fork() == 0:
            stay(own_session=True)
        os._exit(0)
    elif daemon:
        os.waitpid(middle, 0)


def stay(*, own_session: bool) -> None:
    if own_session:
        os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note()
    time.sleep(600)
    os._exit(0)


def steal(port: int) -> None:
    """By a process that outlives this one and is nobody's here: the test started it before."""
    taker = socket.socket(socket.AF_UNIX)
    taker.connect(os.environ["THIEF"])
    taker.sendall(str(port).encode())
    taker.recv(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--socket")
    parser.add_argument("--pids")
    parser.add_argument("--late", type=float, default=0.0)
    parser.add_argument("--die-at-once", type=int)
    for flag in ("never", "garbage", "deaf", "helpers", "daemon", "steal", "lies"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.parse_args(namespace=OPTIONS)
    note()
    if OPTIONS.die_at_once is not None:
        print("it cannot start: no such weights", file=sys.stderr)
        sys.exit(OPTIONS.die_at_once)
    if OPTIONS.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if OPTIONS.lies:
        print('cmd_child_to_router:state:{"state":"ready"}', flush=True)
        print('cmd_child_to_router:state:{"state":"sleeping"}', file=sys.stderr, flush=True)
    if OPTIONS.helpers:
        fork_helpers(daemon=OPTIONS.daemon)
    if OPTIONS.steal:
        steal(OPTIONS.port)
    if OPTIONS.socket:
        Unix(OPTIONS.socket, Handler).serve_forever()
    else:
        Tcp(("127.0.0.1", OPTIONS.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
