"""Whatever is killed, and when: each answer that a client has had to its end is recorded once, with
the tokens that its child counted and that the client received.

    CORRAL_USAGE_REQUESTS=10000 pytest tests/process/test_usage_survives_kills.py
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.process.carrying import Answer, Client, head
from tests.support import prepared
from tests.support.gateway import Gateway, gateway
from tests.support.managing import Manager
from tests.support.polling import eventually

pytestmark = pytest.mark.slow

REQUESTS = int(os.environ.get("CORRAL_USAGE_REQUESTS", "400"))
CLIENTS = 16
BETWEEN_KILLS = (0.5, 4.0)
"""Seconds, and until the gateway is ready again: `serve` takes longer each time to bring back what
dies again and again."""
ROLES = ("web", "web", "scheduler", "jobs")
CHILD = Path(__file__).with_name("counting_child.py")


@dataclass
class Clients:
    """Who ask until all requests have been made; `had` is what came whole, as they saw it."""

    port: int
    key: str
    random: random.Random
    made: int = 0
    broken: int = 0
    had: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return self.made >= REQUESTS

    async def ask_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._ask_on())

    async def _ask_on(self) -> None:
        while not self.is_over:
            self.made += 1
            id, streams = f"request-{self.made}", self.made % 2 == 0
            asked, wanted = self.random.randint(1, 300), self.random.randint(1, 30)
            answer = await self._ask(id, asked, wanted, streams=streams)
            if answer is None or not _is_whole(answer, streams=streams):
                self.broken += 1
                await asyncio.sleep(0.05)
            else:
                self.had[id] = (asked, answer.body.count(b"x"))
                assert self.had[id] == (asked, wanted)

    async def _ask(self, id: str, asked: int, wanted: int, *, streams: bool) -> Answer | None:
        content = [{"role": "user", "content": "y" * asked}]
        fields = {"model": "counted", "messages": content, "max_tokens": wanted, "stream": streams}
        body = json.dumps(fields).encode()
        length, named = b"content-length: %d" % len(body), b"x-request-id: %b" % id.encode()
        authorized = b"authorization: Bearer %b" % self.key.encode()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return None
        try:
            client = Client(reader, writer)
            await client.send(head("/v1/chat/completions", length, named, authorized), body)
            return await client.answer()
        except ConnectionError:
            return None
        finally:
            writer.close()


def _is_whole(answer: Answer, *, streams: bool) -> bool:
    if answer.status != 200:
        return False
    return b"data: [DONE]" in answer.body if streams else answer.whole


@pytest.fixture
def count(tmp_path: Path) -> Path:
    return tmp_path / "count"


@pytest.fixture
def running(tmp_path: Path, count: Path) -> Iterator[Gateway]:
    with gateway(tmp_path, models={}, workers=2) as started:
        line = f"'{sys.executable}' '{CHILD}' ${{socket}} '{count}'"
        told = {"name": "counted", "engine": "command", "command_line": line, "parallel": CLIENTS}
        made = Manager(started)("POST", "/presets", {**told, "declared_memory": {"Host": 50}})
        assert made.status == 201, made
        yield started


async def _kill_at_random(running: Gateway, clients: Clients) -> Counter[str]:
    killed: Counter[str] = Counter()
    while not clients.is_over:
        await asyncio.sleep(clients.random.uniform(*BETWEEN_KILLS))
        await asyncio.to_thread(running.wait_ready, 120.0)
        role = clients.random.choice(ROLES)
        if victims := running.processes(role):
            os.kill(clients.random.choice(victims).pid, signal.SIGKILL)
            killed[role] += 1
    return killed


def test_usage_is_what_the_child_counted_and_each_client_received(
    running: Gateway, count: Path
) -> None:
    clients = Clients(running.client.port, running.key, random.Random(7))

    async def all_of_it() -> Counter[str]:
        asking = asyncio.create_task(clients.ask_all())
        killed = await _kill_at_random(running, clients)
        await asking
        return killed

    killed = asyncio.run(all_of_it())
    usage = running.var / "usage"
    eventually(lambda: not list(usage.glob("*.jsonl")), "all journals are brought in", 120)

    counted = {line.split()[0]: line.split()[1:] for line in count.read_text().splitlines()}
    recorded = prepared.rows(
        running.var, "SELECT request_id, read, answered, estimated, charged, code FROM "
        "proxy_usagerecord"
    )  # fmt: skip
    charged = {id: (read, answered) for id, read, answered, _, paid, code in recorded if paid}
    exact = {id: tokens for id, tokens in charged.items() if id in clients.had}
    print(f"{clients.made} requests, {len(clients.had)} answered, {clients.broken} broken off;")
    print(f"{len(recorded)} records, {len(charged)} charged; killed: {dict(killed)}")
    assert sum(1 for *_, paid, _ in recorded if paid) == len(charged)  # nobody pays twice
    assert exact == clients.had
    assert {id: (int(counted[id][0]), int(counted[id][1])) for id in exact} == exact
    assert not list(usage.glob("*.refused"))
    assert len(clients.had) > REQUESTS / 4

    [(requests,)] = prepared.rows(
        running.var, "SELECT SUM(requests) FROM proxy_usageday WHERE grain = 4"
    )
    [(final,)] = prepared.rows(running.var, "SELECT SUM(final) FROM proxy_usagerecord")
    assert requests == final
