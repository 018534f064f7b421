"""A gateway that is watched: what its collector and its log get, and what they never get."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import Gateway, gateway
from tests.support.otlp_stand_in import OtlpStandIn, otlp_stand_in
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

CANARY = "canary-of-a-prompt"


@pytest.fixture(scope="module")
def collector() -> Iterator[OtlpStandIn]:
    with otlp_stand_in() as running:
        yield running


@pytest.fixture(scope="module")
def watched(collector: OtlpStandIn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-of-collector=hush-hush",
        "CORRAL_LOG_FORMAT": "json",
        "CORRAL_LOG_LEVEL": "DEBUG",
        "CORRAL_ACCESS_LOG": "1",
    }
    folder = tmp_path_factory.mktemp("watched")
    with gateway(folder, env=env, models={"alpha": {"seed": 1}}) as running:
        yield running


def secret_of(key: str) -> str:
    return key.rpartition("_")[2]


def test_a_request_and_the_load_it_waited_for_are_told_and_neither_key_nor_prompt(
    watched: Gateway, collector: OtlpStandIn
) -> None:
    answer = watched.client.chat(
        "alpha", messages=[{"role": "user", "content": CANARY}], user=CANARY
    )
    assert answer.status == 200
    eventually(
        lambda: {"chat alpha", "load alpha"} <= {span.name for span in collector.spans()},
        "the request and the load are told",
        30,
    )
    eventually(lambda: collector.metrics(), "the figures are told", 30)

    spans = {span.name: span for span in collector.spans()}
    request, load = spans["chat alpha"], spans["load alpha"]
    assert request.attributes["corral.request_id"] == answer.headers["x-request-id"]
    assert request.attributes["gen_ai.usage.output_tokens"] == 4
    assert load.links == {request.trace}
    parts = {span.trace for name, span in spans.items() if name in ("queue", "load", "attempt")}
    assert parts == {request.trace}
    assert request.begin <= load.begin < load.end <= request.end
    assert collector.metrics()["gen_ai.server.request.duration"][0]["count"] == 1
    for canary in (CANARY, secret_of(watched.key), "hush-hush"):
        assert not any(canary.encode() in body for body in collector.bodies)


def test_each_line_of_the_log_is_an_object_that_no_client_has_made(watched: Gateway) -> None:
    forged = '/v1/x%0a{"process":"jobs","event":"forged"}%1b[2J'
    headers = {"X-Request-Id": "mine", "Cookie": f"sessionid={CANARY}"}
    assert watched.client.request("GET", forged).status == 400
    body = {"model": "alpha", "messages": [{"role": "user", "content": CANARY}], "max_tokens": 1}
    chat = "/v1/chat/completions"
    assert watched.client.request("POST", chat, body, headers=headers).status == 200

    def mine() -> dict[str, Any]:
        lines = [line for line in lines_of(watched) if line.get("request_id") == "mine"]
        return next((line for line in lines if line["event"] == "request"), {})

    line = eventually(mine, "the request has its line", 30)
    public_id = watched.key.split("_")[1]
    asked = {name: line[name] for name in ("process", "path", "status", "key", "team", "model")}
    assert asked == {
        "process": "web",
        "path": "/v1/chat/completions",
        "status": 200,
        "key": public_id,
        "team": "default",
        "model": "alpha",
    }
    assert not any(line["event"] == "forged" for line in lines_of(watched))
    of_processes = [line for line in watched.output if '"process": "serve"' not in line]
    for canary in (CANARY, secret_of(watched.key), "hush-hush", "\x1b"):
        assert not any(canary in line for line in of_processes)


def lines_of(watched: Gateway) -> list[dict[str, Any]]:
    return [json.loads(line) for line in watched.output]
