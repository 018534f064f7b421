"""Files that are no models: what the client is told, and what the others notice."""

from __future__ import annotations

import pytest

from tests.support.gateway import Gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

ENGINES_WORDS = {
    "broken": "not within the file bounds",
    "vocabulary": "token_embd.weight",
}


@pytest.fixture(params=ENGINES_WORDS)
def bad(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def _rested(shared: Gateway, bad: str) -> None:
    """No failure of a moment ago counts any more."""
    eventually(lambda: not _backing_off(shared, bad), f"{bad} may be tried again", 90)


@pytest.mark.usefixtures("_rested")
def test_the_client_is_told_the_engines_last_words(shared: Gateway, bad: str) -> None:
    answer = shared.client.chat(bad)

    assert answer.status == 503
    assert answer.code == "model_load_failed"
    assert ENGINES_WORDS[bad] in answer.message


@pytest.mark.usefixtures("_rested")
def test_the_client_is_told_not_to_try_again(shared: Gateway, bad: str) -> None:
    assert shared.client.chat(bad).headers["x-should-retry"] == "false"


@pytest.mark.usefixtures("_rested")
def test_nothing_is_evicted_for_it_the_second_time(shared: Gateway, bad: str) -> None:
    shared.client.chat(bad)
    shared.client.chat("alpha")
    shared.client.chat("beta")
    loaded = {child.pid for child in shared.children()}

    second = shared.client.chat(bad)

    assert second.code == "model_backing_off"
    assert int(second.headers["retry-after"]) >= 1
    assert {child.pid for child in shared.children()} == loaded


@pytest.mark.usefixtures("_rested")
def test_the_list_of_models_shows_that_it_failed_and_why(shared: Gateway, bad: str) -> None:
    shared.client.chat(bad)

    listed = shared.client.request("GET", "/models").json["data"]
    status = next(model["status"] for model in listed if model["id"] == bad)
    assert status["failed"] is True
    assert status["exit_code"] == 1
    assert ENGINES_WORDS[bad] in str(status)


@pytest.mark.usefixtures("_rested")
def test_every_waiter_of_it_is_told(shared: Gateway, bad: str) -> None:
    answers = [shared.client.chat(bad) for _ in range(3)]

    assert {answer.code for answer in answers} <= {"model_load_failed", "model_backing_off"}


def _backing_off(running: Gateway, preset: str) -> bool:
    failures = {f["preset"]: f["retry_after"] for f in running.snapshot()["failures"]}
    return failures.get(preset, 0) > 0
