"""What Prometheus reads, of a gateway whose models really work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.gateway import Gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def figures(gateway: Gateway) -> dict[str, dict[tuple[str, ...], float]]:
    """By name, and by the values of the labels."""
    answer = gateway.client.request("GET", "/metrics", key=gateway.admin_key)
    assert answer.status == 200, answer.body
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_every_web_process_tells_of_what_all_have_answered(shared: Gateway) -> None:
    answered = ("alpha", "ok", "default")
    before = figures(shared).get("corral_requests_total", {}).get(answered, 0)
    for _ in range(6):
        assert shared.client.chat("alpha").status == 200

    def all_counted() -> bool:
        return figures(shared)["corral_requests_total"][answered] == before + 6

    eventually(all_counted, "six more answers are counted")
    now = figures(shared)
    assert now["corral_tokens_total"]["read", "alpha", "default"] > 0
    assert now["gen_ai_server_request_duration_seconds_count"]["alpha",] >= 6
    assert now["corral_model_starts_total"]["alpha",] >= 1
    assert now["corral_model_load_seconds_count"]["alpha",] >= 1
    assert now["corral_device_bytes"]["Host", "total"] > 0
    states = now["corral_instance_state"]
    [number] = {instance for instance, model, _ in states if model == "alpha"}
    assert now["llamacpp:prompt_tokens_total"][number, "alpha"] > 0


def test_an_ordinary_key_sees_its_model_and_not_the_teams(shared: Gateway) -> None:
    assert shared.client.chat("alpha").status == 200

    whole = shared.client.request("GET", "/metrics")
    one = shared.client.request("GET", "/metrics?model=alpha")

    assert whole.status == 403
    assert b"metrics" in whole.body
    assert one.status == 200
    assert b"llamacpp:prompt_tokens_total" in one.body


def test_the_page_can_be_parsed_and_only_grows_while_requests_run(shared: Gateway) -> None:
    with ThreadPoolExecutor(4) as askers:
        asked = [askers.submit(shared.client.chat, "alpha", max_tokens=32) for _ in range(16)]
        answered = []
        while not all(each.done() for each in asked):
            answered.append(figures(shared).get("corral_requests_total", {}).copy())

    assert all(each.result().status == 200 for each in asked)
    assert len(answered) > 1
    for before, after in pairwise(answered):
        assert all(after[labels] >= value for labels, value in before.items())
