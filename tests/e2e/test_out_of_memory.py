"""Scenario 9: a model for which no memory is to be had, beside one at work. What is tried although
no memory is to be had stands in tests/process/test_real_engine.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from tests.support.asking import whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.processes import busy_slots

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TOKENS = 6000  # the better part of a minute
HUGE = """
from models_registry.models import Preset
Preset.objects.create(
    name="huge", model_file=Preset.objects.get(name="deep").model_file, ctx_size=16_000_000,
    extra_options="fit = off",
)
"""  # 800 GB of context


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Gateway]:
    models = {"slow": SLOW, "alpha": {"seed": 1}, "deep": {"seed": 5, "blocks": 400}}
    with gateway(tmp_path, args=["--models-max", "2"], models=models) as running:
        running.django(HUGE)
        yield running


def test_scenario_9_it_is_refused_with_the_figures_and_never_tried_while_others_go_on(
    crowded: Gateway,
) -> None:
    with crowded.client.stream("slow", max_tokens=TOKENS) as under_way:
        under_way.next_event()

        refused = crowded.client.chat("huge")
        other = crowded.client.chat("alpha")
        tries = _tries(crowded)

        assert (refused.status, refused.code) == (503, "model_too_large")
        assert "Host" in refused.message
        assert refused.headers["x-should-retry"] == "false"
        assert tries == 0
        assert whole(other)
        assert busy_slots(crowded.child_of("slow")) == 1
        assert under_way.next_event() is not None


def _tries(running: Gateway) -> int:
    query = "SELECT count(*) FROM scheduler_instancerecord WHERE preset = 'huge'"
    with closing(connect(running.var / "corral.sqlite3", timeout=20)) as rows:
        return rows.execute(query).fetchone()[0]
