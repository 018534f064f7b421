"""How long a swap takes, A loaded and idle, B asked for, against what the children need for it."""

from __future__ import annotations

import json
import re
import socket
import statistics
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from benchmarks.frame import Scope, rounds_of, say, spread, table
from benchmarks.load import PATH
from benchmarks.subjects import ChildCommand, corral
from tests.support.gateway import Gateway
from tests.support.polling import eventually

HEADING = "Swap time"
AIM = 1.05
SWAPS = {"stand-in": 5, "tiny": 5, "smollm2": 3}
"""How many each round takes the median of."""
TITLES = {
    "stand-in": "A fake upstream",
    "tiny": "A tiny model",
    "smollm2": "SmolLM2-135M-Instruct, Q4_1",
}
IDLE_SECONDS = 0.3
"""Between an answer and the next swap: the child has noticed by then that it is idle."""

Moments = Mapping[str, float]
"""When what happened: seconds on one clock, from the request for B on."""
STAGES = [
    ("the request, until A is asked to exit", "asked", "exit asked"),
    ("A ends", "exit asked", "gone"),
    ("until B is started", "gone", "started"),
    ("B's process starts, until its first word", "started", "first word"),
    ("B loads, until it says that it is ready", "first word", "ready"),
    ("B's first token, until the client has it", "ready", "first byte"),
]


def section(folder: Path, scope: Scope) -> str:
    parts = [
        "`serve --models-max 1`, A loaded and idle: from the request for B to the first byte of "
        "its answer's stream, through the gateway; and the same by hand with the same command "
        "lines and environment: `exit` on A's stdin until its process is reaped, B's process from "
        "its start to `ready`, one request over its socket. "
        f"Seconds; {rounds_of(scope)}, a round being the median of some swaps.",
    ]
    for child in TITLES:
        if child in scope.children and (child != "stand-in" or len(scope.children) == 1):
            parts.append(_with(folder, child, scope))
    return "\n\n".join(parts)


def _with(folder: Path, child: str, scope: Scope) -> str:
    rounds: list[tuple[list[Moments], list[Moments]]] = []
    options = ["--models-max", "1", "-c", "2048"]
    with corral(folder / child, child, *options, models=("alpha", "beta")) as running:
        commands = {"alpha": ChildCommand.of(running.child_of("alpha"))}
        _swap(running, "beta")
        commands["beta"] = ChildCommand.of(running.child_of("beta"))
        for number in scope.numbers:
            ours, own = [], []
            for swap in range(scope.swaps(SWAPS[child]) if number else 1):
                (loaded,) = (child.preset for child in running.children())
                wanted = "alpha" if loaded == "beta" else "beta"
                ours.append(_swap(running, wanted))
                own.append(_by_hand(commands, wanted, folder / f"{child}-{number}-{swap}"))
            if number:  # the first only warms up
                rounds.append((ours, own))
            say(f"{child}: round {number} of {scope.rounds}")
    return _text(child, rounds)


# Through the gateway -----------------------------------------------------------------------------


def _swap(running: Gateway, wanted: str) -> Moments:
    time.sleep(IDLE_SECONDS)
    lines = len(running.output)
    moments = {"asked": time.time()}
    with socket.create_connection(("127.0.0.1", running.client.port)) as connection:
        moments["first byte"] = first_token(connection, wanted, running.key)
    moments |= _logged(running, wanted, lines)
    return moments


_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_LOGGED = {
    "exit asked": r"ask exit instance \d+ of \w+: ",
    "gone": r"instance \d+ of \w+ has ended: ",
    "started": r"start instance \d+ of {wanted}: ",
    "first word": r"instance \d+ of {wanted}: loading",
    "ready": r"instance \d+ of {wanted}: ready",
}


def _logged(running: Gateway, wanted: str, lines: int) -> Moments:
    """When the scheduler said what it did, from its log."""

    def found() -> dict[str, float]:
        moments = {}
        for what, pattern in _LOGGED.items():
            said = re.compile(pattern.replace("{wanted}", wanted))
            line = next((line for line in running.output[lines:] if said.search(line)), None)
            if line and (at := _TIME.search(line)):
                moments[what] = datetime.fromisoformat(at[0]).timestamp()
        return moments if len(moments) == len(_LOGGED) else {}

    return eventually(found, f"the log tells of the swap to {wanted}")


# By hand -----------------------------------------------------------------------------------------


def _by_hand(commands: Mapping[str, ChildCommand], wanted: str, folder: Path) -> Moments:
    folder.mkdir()
    (other,) = commands.keys() - {wanted}
    with Child(commands[other], folder / "a.sock") as first:
        first.first_token(other)
        time.sleep(IDLE_SECONDS)
        now = time.time()
        moments = {"asked": now, "exit asked": now, "gone": first.ended()}
        with Child(commands[wanted], folder / "b.sock") as second:
            moments |= second.moments
            moments["first byte"] = second.first_token(wanted)
            time.sleep(IDLE_SECONDS)  # an `exit` before its loop runs is lost
            second.ended()
    return moments


class Child:
    """Ready when made; `moments` says when what had happened."""

    def __init__(self, command: ChildCommand, address: Path) -> None:
        self._address = address
        self.moments = {"started": time.time()}
        self._process = subprocess.Popen(
            command.at(str(address)),
            env=command.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout
        for line in self._process.stdout:
            if b"cmd_child_to_router:state:" in line:
                self.moments.setdefault("first word", time.time())
            if b'"state":"ready"' in line:
                break
        self.moments["ready"] = time.time()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def first_token(self, model: str) -> float:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._address))
            return first_token(connection, model, "")

    def ended(self) -> float:
        assert self._process.stdin
        self._process.stdin.write(b"cmd_router_to_child:exit\n")
        self._process.stdin.flush()
        assert self._process.wait() == 0
        return time.time()


def first_token(connection: socket.socket, model: str, key: str) -> float:
    """Asks for a stream of one token and reads it to its end: when its first event came. Fails if
    the answer is no success."""
    messages = [{"role": "user", "content": "Say hi."}]
    body = json.dumps({"model": model, "messages": messages, "stream": True, "max_tokens": 1})
    connection.settimeout(120)
    connection.sendall(
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    received, came = b"", 0.0
    while not received.endswith(b"\r\n0\r\n\r\n"):
        data = connection.recv(1 << 16)
        assert data, f"the answer ends early: {received!r}"
        received += data
        if not came and b"\ndata: " in received:
            came = time.time()
    assert received.startswith(b"HTTP/1.1 200"), received
    return came


# As text -----------------------------------------------------------------------------------------


def _text(child: str, rounds: list[tuple[list[Moments], list[Moments]]]) -> str:
    ours = [_median(moments, "asked", "first byte") for moments, _ in rounds]
    own = [_median(moments, "asked", "first byte") for _, moments in rounds]
    share = [a / b for a, b in zip(ours, own, strict=True)]
    reached = "reached" if statistics.median(share) <= AIM else "not reached"
    rows = []
    for title, begin, end in STAGES:
        by_us = [_median(moments, begin, end) for moments, _ in rounds]
        by_hand = [_median(moments, begin, end) for _, moments in rounds]
        more = [a - b for a, b in zip(by_us, by_hand, strict=True)]
        rows.append([title, *[spread(v, ".4f") for v in (by_us, by_hand)], spread(more, "+.4f")])
    more = [a - b for a, b in zip(ours, own, strict=True)]
    rows.append(["all", spread(ours, ".4f"), spread(own, ".4f"), spread(more, "+.4f")])
    return "\n\n".join(
        [
            f"### {TITLES[child]}",
            f"{spread(share, '.3f')} of the children's own time; the aim is at most {AIM:g}: "
            f"{reached}.",
            table(["", "through Corral", "by hand", "more"], rows),
        ]
    )


def _median(moments: list[Moments], begin: str, end: str) -> float:
    return statistics.median([m[end] - m[begin] for m in moments])
