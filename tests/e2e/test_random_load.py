"""Five hundred requests at random for models that are three times as large as the budget."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.asking import CHAT, chat_body
from tests.support.gateway import Gateway, gateway
from tests.support.managing import MIB, Manager
from tests.support.memory_watch import memory_watched
from tests.support.polling import eventually
from tests.support.rpc_device import rpc_device

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.alone]

BUDGET = 260 * MIB
REQUESTS = 500
CLIENTS = 20
SEED = 20261130
MODELS = {
    "two-layers": {"seed": 1, "blocks": 2},
    "ten-layers": {"seed": 2, "blocks": 10},
    "twenty-layers": {"seed": 3, "blocks": 20},
    "thirty-layers": {"seed": 4, "blocks": 30},
    "wide": {"seed": 5, "blocks": 2, "width": 128},
    "wide-and-deep": {"seed": 6, "blocks": 12, "width": 128},
    "wider": {"seed": 7, "blocks": 2, "width": 192, "heads": 6},
    "wider-and-deep": {"seed": 8, "blocks": 8, "width": 192, "heads": 6},
    "widest": {"seed": 9, "blocks": 2, "width": 256},
    "widest-and-deep": {"seed": 10, "blocks": 8, "width": 256, "feed_forward": 512},
}
TOO_LARGE = "too-large"
ON_SERVERS = {
    **{name: MODELS[name] for name in ("ten-layers", "wide", "wide-and-deep")},
    "wide-forward": {"seed": 11, "blocks": 12, "width": 128, "feed_forward": 2048},
}
REMOTE = {"RPC0": 56 * MIB, "RPC1": 44 * MIB}
"""The last of these models fits on neither of both whole, nor its output layer on the second, with
the copy that a server makes of it while it receives it."""
SERVERS_OWN = 4 * MIB
"""What such a server takes itself beside the buffers and copies that are counted: its connection
and its thread."""
QUICK = {
    "CORRAL_MEMORY_MARGIN": "0",
    "CORRAL_CACHE_RAM": "0",
    "CORRAL_QUANTUM": "1",
    "CORRAL_MAX_WAIT": "2",
}
"""Models take turns every second or two, so that this ends."""


@pytest.fixture
def pressed(tmp_path: Path) -> Iterator[Gateway]:
    env = QUICK | {"CORRAL_DEVICE_BUDGET": f"Host={BUDGET // MIB}MiB"}
    with gateway(tmp_path, args=["--models-max", "0"], env=env, models=MODELS) as running:
        yield running


async def test_random_requests_never_take_more_than_the_budget_and_none_that_fits_is_refused(
    pressed: Gateway,
) -> None:
    manage = Manager(pressed)
    manage.make(TOO_LARGE, like="thirty-layers", ctx_size=400_000)
    manage.until_measured(*MODELS, TOO_LARGE)
    sizes = {name: manage.fit(name)["empty"]["bytes"]["Host"] for name in MODELS}
    assert sum(sizes.values()) >= 3 * BUDGET

    with memory_watched(pressed) as watched:
        answered = await _ask_at_random(pressed, [*MODELS, TOO_LARGE], REQUESTS)

    refusals = Counter(told for name, *told in answered if name != TOO_LARGE and told[0] != 200)
    assert not refusals
    assert {tuple(told) for name, *told in answered if name == TOO_LARGE} == {
        (503, "model_too_large")
    }
    assert max(watched.host) <= BUDGET
    assert max(watched.children) >= 3
    assert len(watched.host) >= 100

    host = manage.device()
    assert (host["leaving"], host["returning"]) == (0, 0)
    assert host["held"] == sum(each["held"] for each in host["instances"]) <= BUDGET
    pressed.unload_all()
    eventually(lambda: manage.device()["held"] == 0, "nothing is held any more")
    starts = pressed.starts()
    assert set(starts) == set(MODELS)
    assert sum(starts.values()) > 2 * len(MODELS)


async def test_random_requests_never_take_more_of_rpc_servers_than_their_budgets(
    tmp_path: Path,
) -> None:
    with rpc_device() as first, rpc_device() as second:
        servers = {"RPC0": first, "RPC1": second}
        env = QUICK | {
            "CORRAL_DEVICE_BUDGET": f"Host={BUDGET // MIB}MiB, "
            + ", ".join(f"{name}={size // MIB}MiB" for name, size in REMOTE.items())
        }
        args = ["--models-max", "0", "--rpc", ",".join(servers.values())]
        with gateway(tmp_path, args=args, env=env, models=ON_SERVERS) as running:
            manage = Manager(running)
            manage.until_measured(*ON_SERVERS, seconds=120)
            placed = {name: manage.fit(name)["empty"] for name in ON_SERVERS}
            with memory_watched(running, [*servers.values()]) as watched:
                answered = await _ask_at_random(running, [*ON_SERVERS], 120)
            took = {
                name: max(look[server] for look in watched.servers)
                for name, server in servers.items()
            }
            assert {each["kind"] for each in placed.values()} == {"whole", "partial"}
            assert {status for _, status, _ in answered} == {200}
            assert max(watched.host) <= BUDGET
            for name, budget in REMOTE.items():
                assert budget // 4 < took[name] <= budget + SERVERS_OWN
                held = manage.device(name)["instances"]
                assert len(held) <= 1  # one process at a time
                assert sum(each["held"] for each in held) <= budget


async def _ask_at_random(
    running: Gateway, names: Sequence[str], requests: int
) -> list[tuple[str, int, str]]:
    """Whom each request named, its status and its error's code."""
    dice = random.Random(SEED)
    plan = [
        (name, dice.randint(1, 24), dice.expovariate(5)) for name in dice.choices(names, k=requests)
    ]
    headers = {"Authorization": f"Bearer {running.key}"}
    answered: list[tuple[str, int, str]] = []
    async with aiohttp.ClientSession(running.base_url, headers=headers) as session:

        async def client() -> None:
            while plan:
                name, tokens, pause = plan.pop()
                await asyncio.sleep(pause)
                body = chat_body(name, max_tokens=tokens)
                async with session.post(CHAT, json=body) as answer:
                    told: dict[str, Any] = await answer.json()
                    code = (told.get("error") or {}).get("code", "")
                    answered.append((name, answer.status, code))

        await asyncio.gather(*[client() for _ in range(CLIENTS)])
    return answered
