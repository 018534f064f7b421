"""Files that are no models: what the client is told, and what the others notice.

Each test has a preset of its own: after a failure a preset rests for a while.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.gateway import Gateway

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ENGINES_WORDS = {
    "broken": "not within the file bounds",
    "vocabulary": "token_embd.weight",
}


@pytest.fixture(params=ENGINES_WORDS)
def bad(request: pytest.FixtureRequest) -> str:
    return request.param


def test_every_waiter_is_told_the_engines_last_words(shared: Gateway, bad: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(shared.client.chat, [f"{bad}-1"] * 3))

    first = next(answer for answer in answers if answer.code == "model_load_failed")
    assert first.status == 503
    assert ENGINES_WORDS[bad] in first.message
    assert {answer.code for answer in answers} <= {"model_load_failed", "model_backing_off"}


def test_the_client_is_told_not_to_try_again(shared: Gateway, bad: str) -> None:
    assert shared.client.chat(f"{bad}-2").headers["x-should-retry"] == "false"


def test_nothing_is_evicted_for_it_the_second_time(shared: Gateway, bad: str) -> None:
    shared.client.chat(f"{bad}-3")
    shared.client.chat("alpha")
    loaded = {child.pid for child in shared.children()}

    second = shared.client.chat(f"{bad}-3")

    assert second.code == "model_backing_off"
    assert int(second.headers["retry-after"]) >= 1
    assert {child.pid for child in shared.children()} == loaded


def test_the_list_of_models_shows_that_it_failed_and_why(shared: Gateway, bad: str) -> None:
    shared.client.chat(f"{bad}-4")

    listed = shared.client.request("GET", "/models").json["data"]
    status = next(model["status"] for model in listed if model["id"] == f"{bad}-4")
    assert status["failed"] is True
    assert status["exit_code"] == 1
    assert ENGINES_WORDS[bad] in status["reason"]
