"""Files that are no models: what the client is told, and what the others notice.

Each test has a preset of its own: after a failure a preset rests for a while.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.gateway import Gateway

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.one_worker]

CUT_OFF = "is cut off, or lies"  # what our own reader says: the engine is not tried
ENGINES_WORDS = "token_embd.weight"


def test_who_waits_for_a_file_that_is_cut_off_is_told_so(shared: Gateway) -> None:
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(shared.client.chat, ["broken-1"] * 3))

    assert {(answer.status, answer.code) for answer in answers} == {(503, "preset_invalid")}
    assert all(CUT_OFF in answer.message for answer in answers)


def test_every_waiter_is_told_the_engines_last_words(shared: Gateway) -> None:
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(shared.client.chat, ["vocabulary-1"] * 3))

    first = next(answer for answer in answers if answer.code == "model_load_failed")
    assert first.status == 503
    assert ENGINES_WORDS in first.message
    assert {answer.code for answer in answers} <= {"model_load_failed", "model_backing_off"}


def test_who_asks_again_at_once_is_told_when_to_come(shared: Gateway) -> None:
    shared.client.chat("vocabulary-5")

    second = shared.client.chat("vocabulary-5")

    assert second.code == "model_backing_off"
    assert int(second.headers["retry-after"]) >= 1


@pytest.mark.parametrize("bad", ["broken", "vocabulary"])
def test_the_client_is_told_not_to_try_again(shared: Gateway, bad: str) -> None:
    assert shared.client.chat(f"{bad}-2").headers["x-should-retry"] == "false"


@pytest.mark.any_server
def test_nothing_is_ever_evicted_for_a_file_that_is_cut_off(shared: Gateway) -> None:
    shared.client.chat("alpha")
    shared.client.chat("beta")
    loaded = {child.pid for child in shared.children()}

    assert shared.client.chat("broken-3").code == "preset_invalid"

    assert {child.pid for child in shared.children()} == loaded


@pytest.mark.any_server
def test_nothing_is_evicted_the_second_time_for_what_the_engine_refuses(shared: Gateway) -> None:
    shared.client.chat("vocabulary-3")
    shared.client.chat("alpha")
    loaded = {child.pid for child in shared.children()}

    second = shared.client.chat("vocabulary-3")

    assert second.code in ("model_backing_off", "model_broken")  # the latter after its rest
    assert {child.pid for child in shared.children()} == loaded


@pytest.mark.any_server
def test_the_list_of_models_shows_that_the_engine_failed_and_why(shared: Gateway) -> None:
    shared.client.chat("vocabulary-4")

    status = _listed(shared, "vocabulary-4")
    assert status["failed"] is True
    assert status["exit_code"] == 1
    assert ENGINES_WORDS in status["reason"]


@pytest.mark.any_server
def test_a_reload_keeps_how_what_has_not_changed_failed(shared: Gateway) -> None:
    """llama.cpp's router says 0 from then on."""
    shared.client.chat("vocabulary-4")
    before = _listed(shared, "vocabulary-4")

    assert shared.client.request("GET", "/models?reload=1").status == 200

    after = _listed(shared, "vocabulary-4")
    assert (after["exit_code"], after["reason"]) == (1, before["reason"])


@pytest.mark.any_server
def test_the_list_of_models_shows_what_cannot_be_started_and_why(shared: Gateway) -> None:
    shared.client.chat("broken-4")

    status = _listed(shared, "broken-4")
    assert status["failed"] is True
    assert "exit_code" not in status
    assert CUT_OFF in status["reason"]


def _listed(shared: Gateway, name: str) -> dict[str, Any]:
    listed = shared.client.request("GET", "/models").json["data"]
    return next(model["status"] for model in listed if model["id"] == name)
