"""Limits hold exactly whatever comes at once: 64 clients over two web processes, with a stand-in
child; and of a model that is never idle teams get tokens as their weights say."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from models_registry.engine_path import llama_server
from tests.support.asking import Answer, Client, chat_body
from tests.support.gateway import Gateway, gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

FAKE = Path(__file__).resolve().parents[1] / "process/fake_llama_server.py"
MODELS = {"alpha": {"seed": 1}}
CLIENTS, SLOTS = 64, 4
COMPUTED = 2
"""Tokens of each prompt that the stand-in says it has computed; it answers as many as it may."""
WARM_UP_SECONDS, SERVED_SECONDS = 10.0, 30.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("limits")
    env = {"CORRAL_LLAMA_SERVER": str(engine(folder))}
    args = ["-np", str(SLOTS)]
    with gateway(folder, env=env, args=args, models=MODELS, workers=2) as started:
        assert started.client.chat("alpha").status == 200
        yield started


def engine(folder: Path) -> Path:
    """A stand-in for all but measuring, whose sockets are named m-…"""
    program = folder / "llama-server"
    program.write_text(
        f"""#!/bin/sh
case "$*" in
    */m-*.sock*) ;;
    *alpha.gguf*) exec {sys.executable} {FAKE} "$@" --slow-tokens 0.1 ;;
esac
exec {llama_server()} "$@"
"""
    )
    program.chmod(0o755)
    return program


def client_of(running: Gateway, team: str, weight: float = 1.0, **figures: int) -> Client:
    """Of a team with these limits, which every process knows."""
    made = running.manage("createkey", team, "--team", team)
    assert made.returncode == 0, made.stderr
    running.django(
        "from proxy.models import Limit, Team\n"
        f"team, figures = Team.objects.get(name={team!r}), {figures!r}\n"
        f"team.weight = {weight}\n"
        "team.save()\n"
        "if figures: Limit.objects.create(team=team, **figures)\n"
    )
    client = Client(running.client.port, made.stdout.split()[-1])
    time.sleep(1.5)
    return client


def at_once(client: Client, count: int, tokens: int) -> list[Answer]:
    """So many requests, which begin together, each in a thread and on a connection of its own."""
    together = threading.Barrier(count)

    def ask() -> Answer:
        together.wait()
        return client.chat("alpha", max_tokens=tokens)

    with ThreadPoolExecutor(count) as pool:
        return [each.result() for each in [pool.submit(ask) for _ in range(count)]]


def codes(answers: list[Answer]) -> Counter[str]:
    return Counter(answer.code or str(answer.status) for answer in answers)


def under_way(running: Gateway) -> int:
    return sum(instance["leases"] for instance in running.snapshot()["instances"])


def test_of_requests_a_minute_exactly_as_many_as_are_allowed_are_served(running: Gateway) -> None:
    client = client_of(running, "requests", requests_per_minute=40)
    answers = at_once(client, CLIENTS, 1)

    assert codes(answers) == {"200": 40, "rate_limit_exceeded": CLIENTS - 40}
    refused = next(answer for answer in answers if answer.status == 429)
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert refused.headers["x-ratelimit-limit-requests"] == "40"
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert codes(at_once(client, 2, 1)) == {"rate_limit_exceeded": 2}


def test_no_more_are_under_way_than_are_allowed_and_every_place_comes_back(
    running: Gateway,
) -> None:
    client = client_of(running, "concurrent", concurrent=3)
    most, over = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not over.is_set():
            most = max(most, under_way(running))

    watching = threading.Thread(target=watch)
    watching.start()
    found = codes(at_once(client, CLIENTS, 10))
    over.set()
    watching.join()

    assert found["200"] >= 3
    assert found["200"] + found["concurrency_limit_exceeded"] == CLIENTS
    assert most <= 3
    eventually(lambda: under_way(running) == 0, "all have ended")
    assert codes(at_once(client, 3, 1)) == {"200": 3}


def test_never_more_tokens_are_granted_than_allowed_and_what_was_used_is_settled(
    running: Gateway,
) -> None:
    tokens = 5
    reserved = -(-len(json.dumps(chat_body("alpha", max_tokens=tokens))) // 4) + tokens
    client = client_of(running, "tokens", tokens_per_minute=1000 * reserved, tokens_per_day=400)
    first = at_once(client, CLIENTS, tokens)
    served = codes(first)["200"]

    assert 400 // reserved <= served < CLIENTS
    assert set(codes(first)) <= {"200", "rate_limit_exceeded"}  # others only held the rest
    used = served * (COMPUTED + tokens)
    while (answer := client.chat("alpha", max_tokens=tokens)).status == 200:
        left = int(answer.headers["x-ratelimit-remaining-tokens"])
        assert left == 400 - used - reserved
        used += COMPUTED + tokens
    assert used <= 400 < used + reserved
    assert answer.code == "budget_exhausted"
    assert answer.headers["x-should-retry"] == "false"

    running.kill("scheduler")
    running.wait_ready()
    eventually(lambda: client.chat("alpha", max_tokens=tokens).code == "budget_exhausted", "back")


def test_two_teams_of_weights_3_to_1_are_served_tokens_3_to_1(running: Gateway) -> None:
    clients = {
        "red": client_of(running, "red", weight=3.0),
        "blue": client_of(running, "blue", weight=1.0),
    }
    began, tokens = time.monotonic(), 5
    served: list[tuple[float, str]] = []

    def ask_on(team: str) -> None:
        while time.monotonic() - began < WARM_UP_SECONDS + SERVED_SECONDS:
            answer = clients[team].chat("alpha", max_tokens=tokens)
            assert answer.status == 200
            served.append((time.monotonic() - began, team))

    with ThreadPoolExecutor(24) as pool:
        asking = [pool.submit(ask_on, team) for team in clients for _ in range(12)]
        for each in asking:
            each.result()
    end = WARM_UP_SECONDS + SERVED_SECONDS
    found = Counter(team for when, team in served if WARM_UP_SECONDS <= when < end)

    assert found["red"] / found["blue"] == pytest.approx(3.0, rel=0.05), found
