"""Scenario 12: an answer that is not streamed, whose client has left, and another model that needs
its room."""

from __future__ import annotations

import http.client
import json
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.asking import CHAT, chat_body, whole
from tests.support.gateway import SLOW, THREE_MODELS, Gateway, gateway
from tests.support.polling import eventually
from tests.support.processes import busy_slots

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TOKENS = 6000  # the better part of a minute
ANSWER_SECONDS = 40.0
"""What that many tokens take at least."""
MODELS = {**THREE_MODELS, "slow": SLOW}
ENV = {"CORRAL_STOP_TIMEOUT": "1"}


def test_scenario_12_nobody_waits_for_an_answer_that_nobody_reads(tmp_path: Path) -> None:
    with gateway(tmp_path, args=["--models-max", "1"], env=ENV, models=MODELS) as running:
        _abandon_an_answer(running)
        began = time.monotonic()

        answer = running.client.chat("beta")

        assert whole(answer)
        assert time.monotonic() - began < ANSWER_SECONDS
        assert [child.preset for child in running.children()] == ["beta"]


def test_scenario_12_an_idle_model_goes_before_one_with_an_answer_that_nobody_reads(
    tmp_path: Path,
) -> None:
    with gateway(tmp_path, args=["--models-max", "2"], env=ENV, models=MODELS) as running:
        _abandon_an_answer(running)
        assert whole(running.client.chat("alpha"))  # used later, and idle

        assert whole(running.client.chat("beta"))

        assert {child.preset for child in running.children()} == {"slow", "beta"}
        assert running.instance_of("slow")["abandoned"] == 1


def _abandon_an_answer(running: Gateway) -> None:
    """The client has left at second one, and the child works on."""
    connection = http.client.HTTPConnection("127.0.0.1", running.client.port, timeout=30)
    body = json.dumps(chat_body("slow", max_tokens=TOKENS))
    headers = {"Authorization": f"Bearer {running.key}", "Content-Type": "application/json"}
    with closing(connection):
        connection.request("POST", CHAT, body, headers)
        eventually(lambda: running.instance_of("slow").get("state") == "loaded", "it is loaded")
        eventually(lambda: busy_slots(running.child_of("slow")) == 1, "the child works")
    eventually(lambda: running.instance_of("slow")["abandoned"] == 1, "its lease is abandoned")
