"""What is asked of the scheduler by programs, and what it says."""

from __future__ import annotations

import pytest

from scheduler.protocol import (
    Apply,
    ErrorBody,
    Failure,
    InstanceState,
    Load,
    QueueEntry,
    SnapshotState,
    Unload,
)

pytestmark = pytest.mark.django_db

PATH = "/presets/user/repo:Q4_K_M"
NAME = "user/repo:Q4_K_M"
LIVE = ["/instances", "/queue"]
ACTIONS = ["load", "load?wait=true", "unload", "unload?force=true", "apply"]


@pytest.mark.parametrize(
    ("action", "operation", "state"),
    [
        ("load", Load(1, NAME), "queued"),
        ("load?wait=true", Load(1, NAME, wait=True), "loaded"),
        ("load?wait=false", Load(1, NAME), "queued"),
        ("unload", Unload(1, NAME), "unloading"),
        ("unload?force=true", Unload(1, NAME, force=True), "unloading"),
        ("apply", Apply(1, NAME), "applying"),
    ],
)
def test_an_action_asks_the_scheduler(manager, preset, scheduler, action, operation, state):
    answer = manager.post(f"{PATH}/{action}")

    assert (answer.status, answer.json) == (200, {"preset": NAME, "state": state})
    assert operation in scheduler.asked


def test_what_is_loaded_already_is_said_to_be(manager, preset, scheduler):
    scheduler.loaded = True

    assert manager.post(f"{PATH}/load").json["state"] == "loaded"


def test_a_measurement_is_asked_for(manager, preset, scheduler):
    assert manager.post(f"{PATH}/measure").json == {"preset": NAME, "state": "measuring"}
    assert scheduler.measured == [NAME]


@pytest.mark.parametrize("action", [*ACTIONS, "measure"])
def test_what_does_not_exist_is_not_asked_for(manager, scheduler, action):
    answer = manager.post(f"/presets/no/such:model/{action}")

    assert (answer.status, answer.code) == (404, "model_not_found")
    assert not scheduler.asked


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(
    ("refusal", "status", "retry_after", "should_retry"),
    [
        (ErrorBody("blocked_by_pinned", "unpin one"), 503, None, "false"),
        (ErrorBody("model_backing_off", "wait", 7.2), 503, "8", None),
        (ErrorBody("model_load_failed", "exit 1: no such tensor"), 503, None, "false"),
        (ErrorBody("does_not_fit", "no room"), 503, None, None),
        (ErrorBody("model_removed", "gone"), 404, None, "false"),
    ],
)
def test_a_refusal_keeps_its_code_and_what_it_says_of_trying_again(
    manager, preset, scheduler, action, refusal, status, retry_after, should_retry
):
    scheduler.refuses = refusal

    answer = manager.post(f"{PATH}/{action}")

    assert (answer.status, answer.code, answer.message) == (status, refusal.code, refusal.message)
    assert answer.headers.get("Retry-After") == retry_after
    assert answer.headers.get("x-should-retry") == should_retry


@pytest.mark.parametrize("action", ACTIONS)
def test_without_a_scheduler_an_action_is_refused_and_worth_repeating(
    manager, preset, scheduler, action
):
    scheduler.socket.unlink()

    answer = manager.post(f"{PATH}/{action}")

    assert (answer.status, answer.code) == (503, "scheduler_unavailable")
    assert int(answer.headers["Retry-After"]) >= 1
    assert "x-should-retry" not in answer.headers


@pytest.mark.parametrize("path", LIVE)
def test_without_a_scheduler_nothing_live_is_invented(manager, scheduler, path):
    scheduler.socket.unlink()

    assert (manager.get(path).status, manager.get(path).code) == (503, "scheduler_unavailable")


def test_rows_are_edited_while_the_scheduler_is_away(manager, preset, scheduler):
    scheduler.socket.unlink()

    assert manager.patch(PATH, {"ctx_size": 1}).status == 200


def test_the_status_says_that_the_scheduler_is_away(manager, scheduler):
    scheduler.socket.unlink()

    told = manager.get("/status")

    assert (told.status, told.json["scheduler"]) == (200, None)
    assert "does not answer" in told.json["problem"]


def test_what_is_live_is_shown_as_the_scheduler_tells_it(manager, scheduler):
    instance = InstanceState(
        3, NAME, "loaded", 2, 1, 4, 4711, True, 60.0, 0.5, args=["--model"], meta={"n_ctx": 8}
    )
    failure = Failure("b", "failed_to_load", 1, None, "no such tensor", 3.0, 27.0)
    scheduler.snapshot = SnapshotState(
        9, 7, 4, False, [instance], [QueueEntry("b", 3, 1.5)], [failure]
    )

    instances, queue, status = (manager.get(path).json for path in (*LIVE, "/status"))

    assert instances["count"] == 1
    shown = instances["items"][0]
    assert (shown["instance"], shown["preset"], shown["stale"]) == (3, NAME, True)
    assert (shown["leases"], shown["abandoned"], shown["meta"]) == (2, 1, {"n_ctx": 8})
    assert queue["items"] == [{"preset": "b", "waiters": 3, "oldest": 1.5}]
    assert status["scheduler"]["instances"] == status["scheduler"]["queue"] == 1
    assert status["scheduler"]["failures"][0]["words"] == "no such tensor"


def test_an_unload_says_whether_anything_ran(manager, preset, scheduler):
    scheduler.instances = 0
    assert manager.post("/presets/user/repo:Q4_K_M/unload").json["state"] == "unloaded"

    scheduler.instances = 1
    assert manager.post("/presets/user/repo:Q4_K_M/unload").json["state"] == "unloading"
