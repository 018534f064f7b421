"""What a collector gets of a gateway whose models really work, and what it never gets."""

from __future__ import annotations

import pytest

from tests.support.gateway import gateway
from tests.support.otlp_stand_in import otlp_stand_in
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

CANARY = "canary-of-a-prompt"


def test_a_request_and_the_load_it_waited_for_are_told_and_neither_key_nor_prompt(tmp_path):
    with otlp_stand_in() as collector:
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-of-collector=hush-hush",
        }
        with gateway(tmp_path, env=env, models={"alpha": {"seed": 1}}) as running:
            answer = running.client.chat(
                "alpha", messages=[{"role": "user", "content": CANARY}], user=CANARY
            )
            assert answer.status == 200
            eventually(
                lambda: {"chat alpha", "load alpha"} <= {span.name for span in collector.spans()},
                "the request and the load are told",
                30,
            )
            secret = running.key.rpartition("_")[2]
            said = running.output

    spans = {span.name: span for span in collector.spans()}
    request, load = spans["chat alpha"], spans["load alpha"]
    assert request.attributes["corral.request_id"] == answer.headers["x-request-id"]
    assert request.attributes["gen_ai.usage.output_tokens"] == 4
    assert load.links == {request.trace}
    assert {span.trace for name, span in spans.items() if name in ("queue", "load", "attempt")} == {
        request.trace
    }
    assert request.begin <= load.begin < load.end <= request.end
    # The figures come at the end, with what was not told before
    assert collector.metrics()["gen_ai.server.request.duration"][0]["count"] == 1
    for canary in (CANARY, secret, "hush-hush"):
        assert not any(canary.encode() in body for body in collector.bodies)
        assert not any(canary in line for line in said if "API key" not in line)
