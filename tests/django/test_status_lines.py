"""What `manage.py status` says of the scheduler."""

from __future__ import annotations

from routerproj.management.commands.status import described
from scheduler.protocol import QueueEntry, RemoteState, SnapshotState


def test_a_queued_model_is_told_with_its_estimate_where_there_is_one():
    queue = [QueueEntry("b", 3, 1.6, "busy", 21.4), QueueEntry("c", 1, 0.2, "turn")]
    told = described(SnapshotState(9, 7, 4, False, [], queue, []))

    assert told == [
        "scheduler pid 9, 0 of 4 models loaded",
        "  b: 3 waiting, the first for 2 s, about 21 s more",
        "  c: 1 waiting, the first for 0 s",
    ]


def test_presets_on_remote_servers_are_told_with_their_requests():
    remotes = [RemoteState("far", 2, 16, 0.5)]
    told = described(SnapshotState(9, 7, 4, False, [], [], [], remotes=remotes))

    assert told[1:] == ["  far: on a remote server, 2 of 16 requests under way"]
