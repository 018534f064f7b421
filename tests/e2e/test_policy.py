"""What an operator says of a model's staying, done by the real gateway to the real engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.gateway import Gateway, gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

POLICIES = """
from models_registry.models import Preset
for name, policy in {
    "alpha": {"keep_alive": -1},
    "gamma": {"keep_alive": -1, "sleep_idle": 1, "readiness_probe": True},
}.items():
    preset = Preset.objects.get(name=name)
    for field, value in policy.items():
        setattr(preset, field, value)
    preset.full_clean()
    preset.save()
"""


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Its models end after two idle seconds, unless their presets say otherwise."""
    env = {"CORRAL_MODEL_KEEP_ALIVE": "2"}
    with gateway(tmp_path_factory.mktemp("policy"), env=env) as running:
        running.django(POLICIES)
        yield running


def edit(running: Gateway, name: str, **fields: object) -> None:
    running.django(
        f"""
from models_registry.models import Preset
preset = Preset.objects.get(name={name!r})
for field, value in {fields!r}.items():
    setattr(preset, field, value)
preset.full_clean()
preset.save()
"""
    )


def test_an_idle_model_ends_unless_its_preset_says_never(idle: Gateway) -> None:
    assert idle.client.chat("alpha").status == 200
    kept = idle.child_of("alpha").pid
    assert idle.client.chat("beta").status == 200

    eventually(lambda: not idle.instance_of("beta"), "beta has ended for being idle")

    assert idle.child_of("alpha").pid == kept
    assert idle.client.chat("beta").status == 200


def test_a_sleeper_answers_again_in_its_own_process(idle: Gateway) -> None:
    assert idle.client.chat("gamma").status == 200
    child = idle.child_of("gamma").pid
    eventually(lambda: idle.models()["gamma"] == "sleeping", "gamma sleeps")

    assert idle.client.chat("gamma").status == 200

    assert idle.child_of("gamma").pid == child


def test_an_edited_policy_counts_for_what_runs_and_loads_nothing_anew(idle: Gateway) -> None:
    assert idle.client.chat("alpha").status == 200
    child = idle.child_of("alpha").pid
    before = idle.snapshot()["revision"]

    edit(idle, "alpha", priority="high", max_wait=5.0, queue_limit=3)
    eventually(lambda: idle.snapshot()["revision"] > before, "the scheduler has heard of it")
    assert idle.client.chat("alpha").status == 200

    assert idle.child_of("alpha").pid == child
    assert not idle.instance_of("alpha")["stale"]
    edit(idle, "alpha", keep_alive=0.5)
    eventually(lambda: not idle.instance_of("alpha"), "it ends: it may not be idle any longer")


def test_a_pinned_model_does_not_sleep(idle: Gateway) -> None:
    assert idle.client.chat("gamma").status == 200
    assert "--sleep-idle-seconds" in idle.child_of("gamma").argv

    edit(idle, "gamma", pinned=True)
    eventually(lambda: not idle.instance_of("gamma"), "the one that may sleep has gone")
    assert idle.client.chat("gamma").status == 200

    assert "--sleep-idle-seconds" not in idle.child_of("gamma").argv
