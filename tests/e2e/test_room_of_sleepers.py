"""A model that sleeps gives back its room; another takes it, and the sleeper waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.support.asking import whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.managing import MIB, Manager
from tests.support.memory_watch import memory_watched
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ASLEEP = 30 * MIB
"""What the process of a sleeper keeps: code, tokenizer, threads."""
TOKENS = 300
MODELS = {"sleepy": {"seed": 6, "blocks": 12, "width": 128}, "slow": SLOW}


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[tuple[Gateway, Manager]]:
    """Room for one of the two, and for the process of the other."""
    env = {"CORRAL_CACHE_RAM": "0", "CORRAL_MEMORY_MARGIN": "0", "CORRAL_MAX_WAIT": "2"}
    args = ["--models-max", "0"]
    with gateway(tmp_path, args=args, env=env, models=MODELS) as running:
        manage = Manager(running)
        manage.change("sleepy", sleep_idle=1, ctx_size=8192)
        manage.change("slow", ctx_size=4096)
        manage.until_measured(*MODELS)
        needs = [manage.fit(name)["empty"]["bytes"]["Host"] for name in MODELS]
        budget = (max(needs) + ASLEEP) // MIB
        assert sum(needs) > budget * MIB
        assert manage("PATCH", "/devices/Host", {"budget": budget}).status == 200
        eventually(lambda: manage.device()["budget"] == budget * MIB, "the budget counts")
        yield running, manage


def test_a_sleeper_makes_room_waits_to_wake_and_no_request_is_lost(
    narrow: tuple[Gateway, Manager],
) -> None:
    running, manage = narrow
    budget = manage.device()["budget"]
    with memory_watched(running) as watched, ThreadPoolExecutor(1) as pool:
        assert whole(running.client.chat("sleepy"))
        awake = manage.device()["held"]
        eventually(lambda: _state(running, "sleepy") == "sleeping", "it sleeps", 60)
        pid = running.child_of("sleepy").pid
        # Of a sleeper the kernel's word counts, as of the next look
        kept = _resident(pid)
        eventually(lambda: abs(manage.device()["held"] - kept) < 8 * MIB, "what it keeps is held")
        assert kept <= ASLEEP < awake

        with running.client.stream("slow", max_tokens=TOKENS) as other:
            assert other.next_event() is not None
            assert {child.preset for child in running.children()} == {"sleepy", "slow"}
            waking = pool.submit(running.client.chat, "sleepy")
            eventually(lambda: running.snapshot()["queue"], "it waits to wake")
            assert _state(running, "sleepy") == "sleeping"
            assert other.to_end().finished
        assert whole(waking.result(100))

        assert running.child_of("sleepy").pid == pid
        eventually(lambda: _state(running, "slow") == "", "the other has made way")
        assert whole(running.client.chat("slow"))
        assert whole(running.client.chat("sleepy"))
    assert max(watched.host) <= budget


def _resident(pid: int) -> int:
    """What is the process's own, without files."""
    shown = psutil.Process(pid).memory_info()
    return int(shown.rss - shown.shared)


def _state(running: Gateway, preset: str) -> str:
    return str(running.instance_of(preset).get("state", ""))
