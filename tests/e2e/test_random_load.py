"""Five hundred requests at random for models that are three times as large as the budget."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.asking import CHAT, chat_body
from tests.support.gateway import Gateway, gateway
from tests.support.managing import MIB, Manager
from tests.support.memory_watch import memory_watched
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

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


@pytest.fixture
def pressed(tmp_path: Path) -> Iterator[Gateway]:
    """Its children take turns every second or two, so that this ends."""
    env = {
        "CORRAL_DEVICE_BUDGET": f"Host={BUDGET // MIB}MiB",
        "CORRAL_MEMORY_MARGIN": "0",
        "CORRAL_CACHE_RAM": "0",
        "CORRAL_QUANTUM": "1",
        "CORRAL_MAX_WAIT": "2",
    }
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
        answered = await _ask_at_random(pressed)

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


async def _ask_at_random(running: Gateway) -> list[tuple[str, int, str]]:
    """Whom each request named, its status and its error's code."""
    dice = random.Random(SEED)
    names = dice.choices([*MODELS, TOO_LARGE], weights=[10] * len(MODELS) + [3], k=REQUESTS)
    plan = [(name, dice.randint(1, 24), dice.expovariate(5)) for name in names]
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
