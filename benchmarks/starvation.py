"""How long the one who asks for B waits while clients keep A busy for ever: here, and with the
router that llama-server itself has."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.frame import Scope, process, rounds_of, say, spread, table
from benchmarks.subjects import START_SECONDS, free_port
from models_registry.engine_path import llama_server
from tests.support.asking import Client, whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.polling import eventually
from tests.support.prepared import clean_environment
from tests.support.tiny_model import tiny_model

HEADING = "A model that is never idle"
MAX_WAIT = 2.0
TOKENS = (80, 100, 120)
"""Of the answers of each of A's clients: a second or so, and not all at the same moment."""
CLIENTS = len(TOKENS)
MODELS = {"a": SLOW, "b": {"seed": 2}}
WATCHED = 15
"""For so many times `--seconds` B's client waits for the router."""
PATIENCE = 120.0
"""So long it waits for Corral."""
OPTIONS = ["-c", "4096", "-np", "4", "-t", "1"]


@dataclass(frozen=True)
class Round:
    """`waited` is None when B was not answered while it was watched. Seconds."""

    waited: float | None
    watched: float
    longest_of_a: float
    answers_of_a: int
    """Until B was answered, or the watch ended."""
    load: float = 0.0
    estimate: float | None = None

    @property
    def bound(self) -> float:
        return MAX_WAIT + self.longest_of_a + self.load


def section(folder: Path, scope: Scope) -> str:
    watched = WATCHED * scope.seconds
    ours: list[Round] = []
    peers: list[Round] = []
    env = {"CORRAL_MAX_WAIT": str(MAX_WAIT)}
    args = ["--models-max", "1", *OPTIONS[:4]]
    with (
        gateway(folder / "corral", args=args, env=env, models=MODELS) as running,
        _router(folder / "router") as router,
    ):
        for number in scope.numbers:
            mine = _round(running.client, PATIENCE, lambda: _estimate(running))
            mine = Round(**vars(mine) | {"load": _last_load(running)})
            theirs = _round(router, watched if number else 1.0, lambda: None)
            if number:  # the first only warms up
                ours.append(mine)
                peers.append(theirs)
            say(f"round {number} of {scope.rounds}")
    return _text(ours, peers, scope)


@contextlib.contextmanager
def _router(folder: Path) -> Iterator[Client]:
    """llama-server without a model: it starts others, one at a time."""
    for name, dims in MODELS.items():
        tiny_model(folder, name, **dims)
    port = free_port()
    command = [str(llama_server()), "--host", "127.0.0.1", "--port", str(port), "--no-ui"]
    command += ["--models-dir", str(folder), "--models-max", "1", *OPTIONS]
    with process(command, clean_environment()):
        client = Client(port, "")
        eventually(lambda: _answers(client), "the router answers", START_SECONDS)
        yield client


def _answers(client: Client) -> bool:
    with contextlib.suppress(OSError):
        return client.request("GET", "/health", timeout=5).status == 200
    return False


# One round ---------------------------------------------------------------------------------------


@dataclass
class _Busy:
    """Clients of A that ask again as soon as they are answered."""

    client: Client
    took: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask_on, args=(n,)) for n in TOKENS]

    def __enter__(self) -> _Busy:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask_on(self, tokens: int) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            answer = self.client.chat("a", max_tokens=tokens)
            if not whole(answer):
                self.failures.append(f"{answer.status} {answer.body!r}")
                return  # a gateway that refuses one would be asked without end
            self.took.append(time.monotonic() - began)


def _round(client: Client, watched: float, ask_estimate: Callable[[], float | None]) -> Round:
    with _Busy(client) as busy:
        eventually(lambda: len(busy.took) >= CLIENTS or busy.failures, "A is busy", 120)
        before = len(busy.took)
        waited: list[float] = []
        asking = threading.Thread(target=_ask_for_b, args=(client, watched, waited))
        asking.start()
        estimate = ask_estimate()
        asking.join()
        meanwhile = list(busy.took)
    if busy.failures:
        raise RuntimeError(f"A's clients are not answered: {busy.failures[0]}")
    # It is A alone that keeps B from its answer
    assert whole(client.chat("b"))
    longest = max(meanwhile)
    served = waited[0] if waited else None
    return Round(served, watched, longest, len(meanwhile) - before, estimate=estimate)


def _ask_for_b(client: Client, watched: float, waited: list[float]) -> None:
    """Leaves, without a word, after `watched` seconds."""
    began = time.monotonic()
    body = {"model": "b", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 1}
    with contextlib.suppress(TimeoutError):
        answer = client.request("POST", "/v1/chat/completions", body, timeout=watched)
        if not whole(answer):
            raise RuntimeError(f"{answer.status} {answer.body!r}")
        waited.append(time.monotonic() - began)


def _estimate(running: Gateway) -> float | None:
    """What the queue says, as soon as B stands in it, of how long it is to wait."""

    def entries() -> list[dict[str, float | None]]:
        return [e for e in running.snapshot()["queue"] if e["preset"] == "b"]

    return eventually(entries, "B is waited for")[0]["seconds"]


def _last_load(running: Gateway) -> float:
    """Of B, from its process's start until it was loaded; the record is written a moment later."""
    query = (
        "SELECT started_at, loaded_at FROM scheduler_instancerecord "
        "WHERE preset = 'b' AND loaded_at IS NOT NULL ORDER BY started_at DESC LIMIT 1"
    )

    def found() -> Any:
        path = running.var / "corral.sqlite3"
        with contextlib.closing(sqlite3.connect(path, timeout=20)) as rows:
            return rows.execute(query).fetchone()

    started, loaded = (datetime.fromisoformat(at) for at in eventually(found, "B's load is noted"))
    return (loaded - started).total_seconds()


# As text -----------------------------------------------------------------------------------------


def _text(ours: Sequence[Round], peers: Sequence[Round], scope: Scope) -> str:
    starved = sum(each.waited is None for each in ours)
    ratios = [each.waited / each.bound for each in ours if each.waited is not None]
    worst = "not answered" if starved else f"{max(ratios):.2f} of it"
    kept = not starved and max(ratios) <= 1.0
    rows = [
        ["B waits, s", _waits(ours), _waits(peers)],
        ["answers of A meanwhile", *[spread([r.answers_of_a for r in rs]) for rs in (ours, peers)]],
        ["A's longest answer, s", *[_of(rs, "longest_of_a") for rs in (ours, peers)]],
        ["B's load, s", _of(ours, "load"), ""],
        ["max_wait + A's longest answer + B's load, s", _of(ours, "bound"), "no bound"],
        ["B's wait as a share of that", spread(ratios, ".2f") if ratios else "", ""],
        ["estimate when B came, over its wait", _estimates(ours), "none is given"],
    ]
    return "\n\n".join(
        [
            f"Room for one model; {CLIENTS} clients ask A again as soon as they are answered, then "
            f"one asks for B. `CORRAL_MAX_WAIT` is {MAX_WAIT:g} s; the router is watched for "
            f"{WATCHED * scope.seconds:g} s a round. The same engine and models behind Corral and "
            f"behind llama-server's own router mode; {rounds_of(scope)}.",
            f"The worst wait with Corral: {worst}, the bound being max_wait, one drain and one "
            f"load: {'kept' if kept else 'not kept'}.",
            table(["", "Corral", "llama-server as router"], rows),
        ]
    )


def _waits(rounds: Sequence[Round]) -> str:
    waited = [each.waited for each in rounds if each.waited is not None]
    starved = len(rounds) - len(waited)
    parts = [spread(waited, ".2f")] if waited else []
    if starved:
        parts.append(f"not answered within {rounds[0].watched:g} s: {starved} of {len(rounds)}")
    return "; ".join(parts)


def _of(rounds: Sequence[Round], name: str) -> str:
    return spread([getattr(each, name) for each in rounds], ".2f")


def _estimates(rounds: Sequence[Round]) -> str:
    shares = [
        each.estimate / each.waited
        for each in rounds
        if each.waited is not None and each.estimate is not None
    ]
    unknown = len(rounds) - len(shares)
    text = spread(shares, ".2f") if shares else ""
    return f"{text}; unknown: {unknown} of {len(rounds)}" if unknown else text
