"""What `manage.py status` says, line by line."""

from __future__ import annotations

from scheduler.protocol import (
    DeviceState,
    Failure,
    InstanceState,
    QueueEntry,
    RemoteState,
    SnapshotState,
    Victim,
)
from scheduler.status_told import status_lines

GIB = 1 << 30


def snapshot(**fields) -> SnapshotState:
    told = {"instances": [], "queue": [], "failures": [], "jobs_ago": 1.0} | fields
    return SnapshotState(9, 7, 4, False, **told)


def test_nothing_but_the_scheduler_is_told_where_nothing_is():
    assert status_lines(snapshot(), []) == ["scheduler pid 9, 0 of 4 models loaded"]


def test_a_jobs_process_that_shows_no_life_is_missed():
    for ago in (None, 120.0):
        [line] = status_lines(snapshot(jobs_ago=ago), [])
        assert line.endswith("no jobs process")


def test_a_queued_model_is_told_with_its_reason_and_its_estimate_where_there_is_one():
    queue = [
        QueueEntry("b", 3, 1.6, "busy", 21.4, drain_in=12.0),
        QueueEntry("c", 1, 0.2, "room", victims=[Victim(1, "a")]),
        QueueEntry("d", 1, 0.2, "load"),
    ]

    assert status_lines(snapshot(queue=queue), [])[2:] == [
        "QUEUE  WAITING  OLDEST      ABOUT  WAITS FOR",
        "b            3     2 s  21 s more  all that could make way are answering; one takes no new"
        " request in 12 s at the latest",
        "c            1     0 s          -  another model makes way (a)",
        "d            1     0 s          -  its model is being loaded",
    ]


def test_an_instance_is_told_with_its_state_slots_memory_and_what_is_special_of_it():
    instances = [
        InstanceState(1, "a", "loaded", 1, 0, 4, 7, True, 60.0, 0.2, pinned=True, held={"G": GIB}),
        InstanceState(2, "bb", "loading", 0, 0, 1, 8, False, 2.0, 2.0, progress=0.43),
    ]

    assert status_lines(snapshot(instances=instances), [])[2:] == [
        "MODEL  STATE         SLOTS     UP  USED     MEMORY      NOTES",
        "a      loaded          1/4  1 min  now      G 1.00 GiB  pinned, options changed",
        "bb     loading 43 %    0/1    2 s  2 s ago  -",
    ]


def test_a_device_is_told_with_what_is_held_free_and_kept_free():
    device = DeviceState(
        *("G", "a card", "CUDA", 8 * GIB, 4 * GIB, GIB, 3 * GIB, 0, GIB, GIB, None, 3 * GIB),
        utilisation=35,
    )

    assert status_lines(snapshot(), [device])[2:] == [
        "DEVICE      HELD  EXTERNAL      FREE        OF    MARGIN  BUDGET  AVAILABLE  NOTES",
        "G       3.00 GiB  1.00 GiB  4.00 GiB  8.00 GiB  1.00 GiB       -   3.00 GiB  1.00 GiB"
        " leaving, 35 % busy",
    ]


def test_a_failure_is_told_with_the_last_words_and_when_it_is_tried_again():
    failures = [Failure("a", "failed_to_load", 1, None, "no such\nfile", 3.0, 8.0)]

    assert status_lines(snapshot(failures=failures), [])[2:] == [
        "FAILED     WHEN  WHY",
        "a       3 s ago  failed to load (exit code 1): no such file; tried again in 8 s",
    ]


def test_what_cannot_be_started_is_told_with_the_reason():
    problems = {"a": "its file cannot be read:\nit is cut off"}

    assert status_lines(snapshot(problems=problems), [])[2:] == [
        "CANNOT BE STARTED  WHY",
        "a                  its file cannot be read: it is cut off",
    ]


def test_presets_on_remote_servers_are_told_with_their_requests():
    remotes = [RemoteState("far", 2, 16, 0.5), RemoteState("new", 0, 1)]

    assert status_lines(snapshot(remotes=remotes), [])[2:] == [
        "REMOTE  REQUESTS  USED",
        "far         2/16  0 s ago",
        "new          0/1  never",
    ]


def test_no_line_is_wider_than_the_terminal():
    failures = [Failure("a", "failed_to_load", 1, None, "words " * 40, 3.0, 8.0)]

    lines = status_lines(snapshot(failures=failures), [], 40)

    assert max(map(len, lines)) == 40
