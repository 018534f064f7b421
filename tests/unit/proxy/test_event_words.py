"""llama.cpp's own words, and what stands beside them."""

from __future__ import annotations

import json
from typing import Any

from proxy.event_words import Part, download_events, events_of
from scheduler.protocol import Ended, Failure, Happened, InstanceState


def instance(state: str, **more: Any) -> InstanceState:
    fields: dict[str, Any] = {
        "leases": 0, "abandoned": 0, "parallel": 1, "pid": 7, "stale": False,
        "started_ago": 1.0, "used_ago": 1.0, **more,
    }  # fmt: skip
    return InstanceState(instance=1, preset="m", state=state, **fields)


def told(*instances: InstanceState, was: str = "", **more: Any) -> dict[str, Any]:
    happened = Happened("life", 1, preset="m", instances=list(instances), **more)
    (event,) = events_of(happened, was)
    assert event["model"] == "m"
    return event


def test_a_child_that_was_started_is_a_model_status_and_its_steps_are_changes():
    step = {"stages": ["text_model"], "current": "text_model", "value": 0.5}

    assert told(instance("loading")) == {
        "event": "model_status",
        "model": "m",
        "data": {"status": "loading"},
    }
    assert told(instance("loading", progress=0.5), was="loading") == {
        "event": "status_change",
        "model": "m",
        "data": {"status": "loading", "progress": step},
    }


def test_a_loaded_one_brings_what_the_child_said_and_what_it_takes():
    event = told(instance("loaded", meta={"id": "m"}, held={"Host": 5}), was="loading")

    assert event["event"] == "status_change"
    assert event["data"] == {"status": "loaded", "info": {"id": "m"}, "memory": {"Host": 5}}


def test_what_llama_cpp_has_no_word_for_is_a_detail():
    assert told(instance("draining"))["data"] == {"status": "loaded", "detail": "draining"}
    assert told(instance("stopping"))["data"] == {"status": "loaded", "detail": "stopping"}
    assert told(queued=True)["data"] == {"status": "unloaded", "detail": "queued"}
    assert told(measuring=True)["data"] == {"status": "unloaded", "detail": "measuring"}


def test_the_most_usable_of_several_instances_counts():
    assert told(instance("stopping"), instance("loaded"))["data"]["status"] == "loaded"


def test_an_end_has_its_exit_code_and_reason():
    asked = Ended(by_itself=False, reason="evicted", exit_code=0)
    crashed = Ended(by_itself=True, reason="crashed", signal=9, words="GGML_ASSERT")
    killed = Ended(by_itself=False, reason="stop_timeout", signal=9)

    assert told(ended=asked)["data"] == {"status": "unloaded", "exit_code": 0, "reason": "evicted"}
    assert told(ended=crashed)["data"] == {
        "status": "unloaded",
        "exit_code": 137,
        "reason": "crashed: GGML_ASSERT",
    }
    assert told(ended=killed)["data"]["exit_code"] == 0


def test_a_registry_read_anew_removes_and_reloads():
    events = list(events_of(Happened("life", 3, revision=7, gone=["a", "b"]), ""))

    assert events == [
        {"event": "model_remove", "model": "a"},
        {"event": "model_remove", "model": "b"},
        {"event": "models_reload", "model": "*"},
    ]


def test_the_beginning_of_a_subscription_is_no_event():
    assert list(events_of(Happened("life", 3), "")) == []


def entry(done: int) -> dict[str, Any]:
    files = {"u": {"done": done, "total": 9}}
    return {"status": {"value": "downloading", "progress": {"value": done / 9, "files": files}}}


def test_a_download_is_told_from_its_beginning_to_its_end():
    files = {"u": {"done": 3, "total": 9}}

    begun = list(download_events({}, {"m": entry(3)}, {}))
    same = list(download_events({"m": entry(3)}, {"m": entry(3)}, {}))
    ended = list(download_events({"m": entry(3), "n": entry(1)}, {}, {"m": True, "n": False}))

    assert begun == [
        {"event": "model_status", "model": "m", "data": {"status": "downloading"}},
        {"event": "download_progress", "model": "m", "data": {"progress": files}},
    ]
    assert same == []
    assert ended == [
        {"event": "download_finished", "model": "m"},
        {"event": "download_failed", "model": "n"},
    ]


def test_a_frame_is_one_line_of_data_whatever_a_name_holds():
    sent = Part(({"event": "x", "model": "a\nb"}, "life.1")).frames

    assert sent.startswith(b"id: life.1\ndata: {")
    assert sent.endswith(b"}\n\n")
    assert sent.count(b"\n") == 3
    assert json.loads(sent.split(b"data: ")[1])["model"] == "a\nb"


def test_what_runs_elsewhere_is_loaded_unless_it_is_left_alone():
    failure = Failure("m", "upstream_unavailable", None, None, "nobody listens there", 1.0, 2.0)

    assert told(remote=True)["data"] == {"status": "loaded", "detail": "remote"}
    assert told(remote=True, failure=failure)["data"] == {
        "status": "unloaded",
        "reason": "upstream_unavailable: nobody listens there",
    }
