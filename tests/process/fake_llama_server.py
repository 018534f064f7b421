#!/usr/bin/env python3
"""A child that behaves as told: a real process that speaks llama-server's child protocol and HTTP
on a Unix socket, and needs no engine, no weights and no package.

Its own flags come on the command line, beside llama-server's options (which it takes and ignores),
or from a file named like the model file with `.flags` behind it: so a preset of a whole running
product can have a behaviour of its own. Its state lines and log lines are captured from
llama-server; see tests/support.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import fake_sockets  # beside this file, which is run as a program

PREFIX = "cmd_child_to_router:state:"
OUT_OF_MEMORY = """\
0.04.789.113 E ggml_aligned_malloc: insufficient memory (attempted to allocate 878906.25 MB)
0.04.789.180 E ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 921600
0.04.936.352 E llama_init_from_model: failed to initialize the context: failed to allocate buffer
0.04.936.815 E srv  llama_server: exiting due to model loading error"""
BROKEN_FILE = """\
0.00.006.676 E gguf_init_from_reader: invalid magic characters: 'L?!?', expected 'GGUF'
0.00.006.754 E llama_model_load: error loading model: llama_model_loader: failed to load model
0.00.007.091 E srv  llama_server: exiting due to model loading error"""


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-m", "--model", default="")
    parser.add_argument("--host", default="")
    parser.add_argument("--alias", default="fake")
    parser.add_argument("-np", "--parallel", type=int, default=1)
    parser.add_argument("--load-seconds", type=float, default=0.0)
    parser.add_argument("--exit-code", type=int, help="exit with it instead of becoming ready")
    parser.add_argument("--die-while-loading", action="store_true", help="by SIGKILL, half-way")
    parser.add_argument("--oom", action="store_true", help="say that memory was short, then exit 1")
    parser.add_argument("--ignore-exit", action="store_true", help="neither `exit` nor EOF ends it")
    parser.add_argument("--ignore-sigterm", action="store_true")
    parser.add_argument("--long-line", action="store_true", help="print a line of 200 kB first")
    parser.add_argument("--endless-line", action="store_true", help="print 3 MB without a newline")
    parser.add_argument("--print-garbage", action="store_true", help="what no parser expects")
    parser.add_argument("--chatter", action="store_true", help="print 1 MB of log, then go on")
    parser.add_argument("--crash-after", type=float, help="seconds from ready to SIGABRT")
    parser.add_argument("--crash-on-request", action="store_true", help="SIGABRT at a POST")
    parser.add_argument("--generate-nothing", action="store_true", help="500 at a POST")
    parser.add_argument("--sleep-idle", type=float, help="seconds without a request to `sleeping`")
    parser.add_argument("--slow-tokens", type=float, default=0.0, help="seconds per token")
    parser.add_argument("--grandchild", action="store_true", help="leave one holding the pipes")
    known, _ = parser.parse_known_args(argv)
    flags = Path(f"{known.model}.flags")
    if known.model and flags.is_file():
        known, _ = parser.parse_known_args([*argv, *shlex.split(flags.read_text())])
    return known


class Fake:
    """What the HTTP side and the protocol side share."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.lock = threading.Condition()
        self.busy: list[int] = []
        self.asleep = False
        self.last_use = time.monotonic()

    def report(self, state: str, payload: object) -> None:
        line = json.dumps({"state": state, "payload": payload}, separators=(",", ":"))
        # The engine writes a newline first, so that a log line without one spoils nothing.
        print(f"\n{PREFIX}{line}", flush=True)

    def load(self) -> None:
        for value in (0.0, 0.5, 1.0):
            self.report(
                "loading", {"stages": ["text_model"], "current": "text_model", "value": value}
            )
            if value < 1.0:
                time.sleep(self.options.load_seconds / 2)
            if value == 0.5 and self.options.die_while_loading:
                os.kill(os.getpid(), signal.SIGKILL)

    def ready(self) -> None:
        meta = {"n_ctx": 2048, "n_ctx_train": 8192, "n_params": 134515008, "size": 96576768}
        self.report("ready", {"id": self.options.alias, "object": "model", "meta": meta})

    @contextlib.contextmanager
    def slot(self):
        """One of the slots; waits for a free one, as the engine's own queue does."""
        with self.lock:
            self.lock.wait_for(lambda: len(self.busy) < self.options.parallel)
            number = next(n for n in range(self.options.parallel) if n not in self.busy)
            self.busy.append(number)
        try:
            yield
        finally:
            with self.lock:
                self.busy.remove(number)
                self.last_use = time.monotonic()
                self.lock.notify_all()

    def wake(self) -> None:
        with self.lock:
            if self.asleep:
                self.load()
                self.report("ready", {})
                self.asleep = False
            self.last_use = time.monotonic()

    def fall_asleep(self) -> None:
        while True:
            time.sleep(0.02)
            with self.lock:
                idle = time.monotonic() - self.last_use
                if not self.asleep and not self.busy and idle > self.options.sleep_idle:
                    self.asleep = True
                    self.report("sleeping", {})

    def obey(self) -> None:
        """stdin, which the engine reads only once it has loaded."""
        for line in sys.stdin:
            if "cmd_router_to_child:exit" in line and not self.options.ignore_exit:
                with self.lock:
                    # An open stream keeps the engine from ending.
                    self.lock.wait_for(lambda: not self.busy)
                print("0.03.999.740 I srv    operator(): exit command received", file=sys.stderr)
                os._exit(0)
        if not self.options.ignore_exit:
            os._exit(1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: Fake

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/health" | "/v1/health":
                self.answer({"status": "ok"})
            case "/slots":
                self.fake.wake()
                slots = range(self.fake.options.parallel)
                busy = list(self.fake.busy)
                self.answer([{"id": n, "n_ctx": 2048, "is_processing": n in busy} for n in slots])
            case "/v1/models" | "/models":
                self.answer({"object": "list", "data": [{"id": self.fake.options.alias}]})
            case "/v1/realtime" if self.headers["Upgrade"]:
                self.fake.wake()
                with self.fake.slot():
                    fake_sockets.speak(self)
            case "/props":
                self.answer({"total_slots": self.fake.options.parallel})
            case _:
                self.answer({"error": {"message": "File Not Found", "code": 404}}, 404)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        if self.fake.options.crash_on_request:
            os.abort()
        if self.fake.options.generate_nothing:
            self.answer({"error": {"message": "Compute error.", "code": 500}}, 500)
            return
        self.fake.wake()
        with self.fake.slot():
            self.complete(body)

    def complete(self, body: dict[str, object]) -> None:
        count = int(body.get("max_tokens") or body.get("n_predict") or 8)
        if not body.get("stream"):
            # As the engine does: the answer is worked out to its end, whoever still listens.
            time.sleep(self.fake.options.slow_tokens * count)
            message = {"role": "assistant", "content": "".join(words(count))}
            choice = {"index": 0, "message": message, "finish_reason": "length"}
            self.answer({"choices": [choice], **self.closing(count)})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        # As the engine does: so a stream that is cut is seen to be cut
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for word in words(count):
            time.sleep(self.fake.options.slow_tokens)
            self.event({"choices": [{"index": 0, "delta": {"content": word}}]})
        choice = {"index": 0, "delta": {}, "finish_reason": "length"}
        self.event({"choices": [choice], **self.closing(count)})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def closing(self, count: int) -> dict[str, object]:
        usage = {"prompt_tokens": 3, "completion_tokens": count, "total_tokens": count + 3}
        timings = {"cache_n": 1, "prompt_n": 2, "predicted_n": count}
        return {"model": self.fake.options.alias, "usage": usage, "timings": timings}

    def event(self, what: object) -> None:
        self.chunk(b"data: " + json.dumps(what).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        """An empty one ends the answer."""
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def answer(self, what: object, status: int = 200) -> None:
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        print(f"0.09.000.000 I srv  log: {format % values}", file=sys.stderr, flush=True)

    def address_string(self) -> str:
        return "unix"


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that left


def words(count: int) -> list[str]:
    return [f"w{number} " for number in range(count)]


def print_oddities(options: argparse.Namespace) -> None:
    if options.long_line:
        print("x" * 200_000, flush=True)
    if options.endless_line:
        print("y" * 3_000_000, flush=True)
    if options.chatter:
        for number in range(10_000):
            print(f"0.00.000.001 I srv  chatter: {number:<60}", file=sys.stderr)
    if options.print_garbage:
        sys.stdout.buffer.write(b"\xff\xfe\x00 not text\n")
        for line in ("{", "[]", '{"state":7}', '{"state":"dreaming","payload":{}}', '"ready"'):
            print(PREFIX + line)
        print("cmd_child_to_router:weather:{}", file=sys.stderr)
        print(PREFIX + '{"state":"loading","payload":' + "[" * 5000, flush=True)


def main(argv: list[str]) -> int:
    options = arguments(argv)
    fake = Fake(options)
    if options.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print_oddities(options)
    if options.grandchild and os.fork() == 0:
        time.sleep(600)
        return 0
    fake.load()
    if options.oom:
        print(OUT_OF_MEMORY, file=sys.stderr, flush=True)
        return 1
    if options.exit_code is not None:
        print(BROKEN_FILE, file=sys.stderr, flush=True)
        return options.exit_code
    server = Server(options.host, type("BoundHandler", (Handler,), {"fake": fake}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"0.00.397.546 I srv  llama_server: listening on unix://{options.host}", file=sys.stderr)
    fake.ready()
    if options.crash_after is not None:
        threading.Timer(options.crash_after, os.abort).start()
    if options.sleep_idle is not None:
        threading.Thread(target=fake.fall_asleep, daemon=True).start()
    threading.Thread(target=fake.obey, daemon=True).start()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
