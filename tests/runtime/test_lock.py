"""What processes that were killed leave in the folder of the sockets."""

from __future__ import annotations

from pathlib import Path

from scheduler.runtime.lock import remove_leftovers


def test_sockets_of_those_that_are_gone_go_and_the_control_socket_stays(tmp_path: Path):
    """Of children that served, and of those that measured."""
    for name in ("i-3-ed39cf.sock", "m-167c1501.sock", "control.sock"):
        (tmp_path / name).touch()

    remove_leftovers(tmp_path)

    assert [left.name for left in tmp_path.iterdir()] == ["control.sock"]
