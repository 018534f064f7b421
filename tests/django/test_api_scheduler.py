"""What is asked of the scheduler by programs, and what it says."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.protocol import (
    Apply,
    ErrorBody,
    Explain,
    Failure,
    InstanceState,
    Load,
    QueueEntry,
    SnapshotState,
    Unload,
    Victim,
    Waiter,
    Waiters,
    WaitersPage,
)

pytestmark = pytest.mark.django_db

PATH = "/presets/user/repo:Q4_K_M"
NAME = "user/repo:Q4_K_M"
LIVE = ["/instances", "/queue"]
ASKED_FOR = ["/queue/user/repo:Q4_K_M", "/explain/mine-1"]
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


@pytest.mark.parametrize("path", [*LIVE, *ASKED_FOR])
def test_without_a_scheduler_nothing_live_is_invented(manager, scheduler, path):
    scheduler.socket.unlink()

    assert (manager.get(path).status, manager.get(path).code) == (503, "scheduler_unavailable")


def test_rows_are_edited_while_the_scheduler_is_away(manager, preset, scheduler):
    scheduler.socket.unlink()

    assert manager.patch(PATH, {"ctx_size": 16}).status == 200


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
        9,
        7,
        4,
        False,
        [instance],
        [QueueEntry("b", 3, 1.5, "busy", 21.5, [Victim(3, NAME)], 12.0)],
        [failure],
    )

    instances, queue, status = (manager.get(path).json for path in (*LIVE, "/status"))

    assert instances["count"] == 1
    shown = instances["items"][0]
    assert (shown["instance"], shown["preset"], shown["stale"]) == (3, NAME, True)
    assert (shown["leases"], shown["abandoned"], shown["meta"]) == (2, 1, {"n_ctx": 8})
    assert queue["items"] == [
        {
            "preset": "b",
            "waiters": 3,
            "oldest": 1.5,
            "holdup": "busy",
            "seconds": 21.5,
            "victims": [{"instance": 3, "preset": NAME}],
            "drain_in": 12.0,
        }
    ]
    assert status["scheduler"]["instances"] == status["scheduler"]["queue"] == 1
    assert status["scheduler"]["failures"][0]["words"] == "no such tensor"


def test_who_waits_for_a_preset_is_shown_a_page_at_a_time(manager, scheduler):
    waiter = Waiter(51, "mine-1", "builders", "post", "high", 2.5, None)
    scheduler.waiters = WaitersPage(NAME, 52, [waiter])

    page = manager.get(f"/queue/{NAME}?limit=1&offset=50").json

    assert page == {"items": [msgspec.to_builtins(waiter)], "count": 52}
    assert scheduler.asked[-1] == Waiters(1, NAME, 1, 50)


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=201", "limit"), ("limit=0", "limit"), ("offset=10001", "offset"), ("x=1", "x")],
)
def test_a_page_of_waiters_has_its_bounds(manager, scheduler, query, field):
    answer = manager.get(f"/queue/{NAME}?{query}")

    assert (answer.status, answer.param) == (422, field)
    assert scheduler.times("Waiters") == 0


def test_a_request_is_explained_by_the_id_that_its_client_got(manager, scheduler):
    told = manager.get("/explain/mine-1")

    assert (told.status, told.json) == (200, msgspec.to_builtins(scheduler.explained))
    assert scheduler.asked[-1] == Explain(1, "mine-1")


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("/explain/gone", ErrorBody("not_found", "no request with this id waits")),
        ("/queue/nope", ErrorBody("model_not_found", "no model is called 'nope'")),
    ],
)
def test_what_is_not_there_is_a_404(manager, scheduler, path, refusal):
    scheduler.refuses = refusal

    answer = manager.get(path)

    assert (answer.status, answer.code, answer.message) == (404, refusal.code, refusal.message)


def test_an_unload_says_whether_anything_ran(manager, preset, scheduler):
    scheduler.instances = 0
    assert manager.post("/presets/user/repo:Q4_K_M/unload").json["state"] == "unloaded"

    scheduler.instances = 1
    assert manager.post("/presets/user/repo:Q4_K_M/unload").json["state"] == "unloading"
