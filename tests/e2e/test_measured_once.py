"""What is measured once is never measured again: not after a restart, not for a likeness."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Gateway, gateway
from tests.support.managing import Manager
from tests.support.polling import eventually
from tests.support.tiny_model import tiny_model

pytestmark = [pytest.mark.engine, pytest.mark.slow]

MODELS = {"alpha": {"seed": 1}, "beta": {"seed": 2}}
PRESETS, SIZES = (100, 25) if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else (8, 4)
"""Each has another context or another number of slots than all others, and so figures of its own.
"""
MEASURED = PRESETS + len(MODELS)
"""Those, and the two that were found in the folder."""
MANY = f"""
from django.db import transaction
from models_registry.models import ModelFile, Preset
alpha, beta = ModelFile.objects.order_by("path")
with transaction.atomic():
    for number in range({PRESETS}):
        Preset.objects.create(
            name=f"preset-{{number}}", model_file=beta if number % 2 else alpha,
            ctx_size=256 * (1 + number % {SIZES}), parallel=1 + number // {SIZES},
        )
"""


@pytest.mark.timeout(600)  # every night: a hundred measurements take a minute and more
def test_a_restart_with_many_presets_measures_none_of_them_again(tmp_path: Path) -> None:
    args = ["-t", "1"]
    with gateway(tmp_path, args=args, models=MODELS, models_dir=tmp_path / "models") as running:
        manage = Manager(running)
        running.django(MANY)
        eventually(lambda: len(_jobs_done(running)) >= MEASURED, "all are measured", 480)
        before = _rows(manage)

    with gateway(tmp_path, args=args, models=MODELS, models_dir=tmp_path / "models") as running:
        manage = Manager(running)
        # Measuring goes in turn: what comes last is measured after anything due before
        manage.make("the-last", like="alpha", ctx_size=7680)
        manage.until_measured("the-last")
        manage.until_measured(*(f"preset-{number}" for number in range(0, PRESETS, PRESETS // 4)))
        after = _rows(manage)
        done = _jobs_done(running)

    assert len(before) == len({row["fingerprint"] for row in before.values()}) == MEASURED
    assert {row["state"] for row in before.values()} == {"measured"}
    assert {id: row for id, row in after.items() if id in before} == before
    assert len(after) == len(before) + 1
    assert [line.split(" takes ")[0].split()[-1] for line in done] == ["the-last"]


def test_a_file_that_is_replaced_while_it_is_loaded_is_measured_again_and_served_beside_the_old(
    tmp_path: Path,
) -> None:
    models = {"slow": {"seed": 4, "blocks": 60}, "alpha": {"seed": 1}}
    env = {"CORRAL_CACHE_RAM": "0"}
    with (
        gateway(tmp_path, env=env, models=models, models_dir=tmp_path / "models") as running,
        ThreadPoolExecutor(1) as pool,
    ):
        manage = Manager(running)
        manage.until_measured("slow")
        [small] = manage.measurements("slow")

        with running.client.stream("slow", max_tokens=900) as under_way:
            under_way.next_event()
            old = running.instance_of("slow")["instance"]
            tiny_model(running.models_dir, "slow", seed=5, blocks=40)
            running.control("reload")
            eventually(lambda: _state(running, old, "stale"), "the old one is stale", 60)
            new = eventually(lambda: _beside(running, old), "its successor runs beside it", 60)
            answer = pool.submit(running.client.chat, "slow").result(60)
            assert answer.status == 200
            assert _state(running, old, "leases") == 1
            ending = under_way.to_end()

        assert ending.finished
        eventually(lambda: not _instance(running, old), "the old one has gone")
        assert running.instance_of("slow")["instance"] == new
        [again] = manage.measurements("slow")
        assert again["fingerprint"] != small["fingerprint"]
        assert again["total"]["Host"] < small["total"]["Host"]


def _rows(manage: Manager) -> dict[int, dict[str, Any]]:
    rows = manage("GET", "/measurements?limit=200").json["items"]
    return {row["id"]: row for row in rows}


def _jobs_done(running: Gateway) -> list[str]:
    """What the jobs process said of each measurement."""
    return [line for line in running.output if line.startswith("jobs") and " takes " in line]


def _instance(running: Gateway, number: int) -> dict[str, Any]:
    instances = running.snapshot()["instances"]
    return next((each for each in instances if each["instance"] == number), {})


def _state(running: Gateway, number: int, field: str) -> Any:
    return _instance(running, number).get(field)


def _beside(running: Gateway, old: int) -> int:
    """The number of another instance that is loaded; 0 while there is none."""
    instances = running.snapshot()["instances"]
    loaded = [each["instance"] for each in instances if each["state"] == "loaded"]
    return next((number for number in loaded if number != old), 0)
