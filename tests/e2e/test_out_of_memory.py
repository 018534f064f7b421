"""Scenario 9: a model for which no memory is to be had, beside one at work: by the figures, or
because the system gives it none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from models_registry.engine_path import llama_server
from tests.support.asking import whole
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.managing import Manager
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


UNLUCKY = """
from models_registry.models import Preset
Preset.objects.create(
    name="unlucky", model_file=Preset.objects.get(name="deep").model_file, ctx_size=32768,
    parallel=1,
)
"""  # 1.6 GiB of context
ENGINE = """#!/bin/sh
case "$*" in *--ctx-size\\ 32768*) ulimit -v {kib} ;; esac
exec {engine} "$@"
"""


@pytest.fixture
def meagre(tmp_path: Path) -> Iterator[Gateway]:
    """A real engine, to which the system gives too little memory for one preset."""
    program = tmp_path / "llama-server"
    program.write_text(ENGINE.format(kib=1_500_000, engine=llama_server()))
    program.chmod(0o700)
    env = {"CORRAL_LLAMA_SERVER": str(program), "CORRAL_MEMORY_MARGIN": "0"}
    models = {"slow": SLOW, "alpha": {"seed": 1}, "deep": {"seed": 5, "blocks": 400}}
    with gateway(tmp_path, env=env, models=models) as running:
        running.django(UNLUCKY)
        yield running


def test_one_that_gets_no_memory_is_tried_three_times_and_refused_while_others_go_on(
    meagre: Gateway,
) -> None:
    Manager(meagre).until_measured("unlucky")
    with meagre.client.stream("slow", max_tokens=TOKENS) as under_way, ThreadPoolExecutor() as pool:
        under_way.next_event()
        asked = pool.submit(meagre.client.chat, "unlucky")
        served = 0
        while not asked.done():
            assert whole(meagre.client.chat("slow"))
            assert under_way.next_event() is not None
            served += 1
        refused = asked.result()

        assert (refused.status, refused.code) == (503, "out_of_memory")
        assert re.search(r"it was granted \d,\d\d\d MiB on Host", refused.message)
        assert "insufficient memory" in refused.message
        assert int(refused.headers["retry-after"]) >= 1
        assert served >= 1
        assert busy_slots(meagre.child_of("slow")) == 1
    meagre.unload_all()
    assert meagre.starts()["unlucky"] == 3
    assert meagre.starts()["slow"] == 1


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
