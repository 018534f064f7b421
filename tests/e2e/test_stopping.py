"""What a signal to `serve` does to answers under way, and what it leaves behind: nothing."""

from __future__ import annotations

import http.client
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.asking import Stream
from tests.support.gateway import SLOW, Gateway, gateway
from tests.support.polling import eventually
from tests.support.processes import processes_of

pytestmark = [pytest.mark.engine, pytest.mark.slow]

GONE_SECONDS = 5
ENDLESS = 6000  # tokens: the better part of a minute


def test_after_sigterm_no_new_request_is_taken_one_under_way_is_finished_and_then_all_is_gone(
    variant: dict[str, object], tmp_path: Path
) -> None:
    with _streaming(tmp_path, variant, max_tokens=300) as (running, stream):
        running.interrupt()
        eventually(lambda: _refused(running), "a new request is refused")
        ending = stream.to_end()
        running.process.wait(GONE_SECONDS)

    assert ending.finished
    assert running.process.returncode == 0
    assert processes_of(running.var) == []


def test_a_second_sigterm_stops_at_once(variant: dict[str, object], tmp_path: Path) -> None:
    with _streaming(tmp_path, variant, max_tokens=ENDLESS) as (running, stream):
        running.interrupt()
        eventually(lambda: _refused(running), "the first signal has been seen")
        running.interrupt()
        running.process.wait(GONE_SECONDS)

        assert processes_of(running.var) == []
        assert stream.to_end().explicit_error


def test_the_drain_timeout_cuts_a_stream_with_an_error_event(
    variant: dict[str, object], tmp_path: Path
) -> None:
    args = ["--drain-timeout", "1"]
    with _streaming(tmp_path, variant, args, max_tokens=ENDLESS) as (running, stream):
        running.interrupt()
        ending = stream.to_end()
        running.process.wait(GONE_SECONDS)

    assert [error["code"] for error in ending.errors] == ["shutting_down"]
    assert not ending.done


def test_sigint_stops_everything_too(tmp_path: Path) -> None:
    with gateway(tmp_path, models={}) as running:
        running.process.send_signal(signal.SIGINT)
        running.process.wait(GONE_SECONDS * 2)

        assert processes_of(running.var) == []


def test_serve_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    with gateway(tmp_path) as running:
        running.client.chat("alpha")
        running.process.kill()

        eventually(lambda: not processes_of(running.var), "everything is gone", GONE_SECONDS)


@contextmanager
def _streaming(
    folder: Path, variant: dict[str, object], args: list[str] | None = None, *, max_tokens: int
) -> Iterator[tuple[Gateway, Stream]]:
    """A gateway of its own and a stream of it that has begun."""
    with (
        gateway(folder, args=args or [], models={"slow": SLOW}, **variant) as running,
        running.client.stream("slow", max_tokens=max_tokens) as stream,
    ):
        stream.next_event()
        yield running, stream


def _refused(running: Gateway) -> bool:
    """503, or no connection at all."""
    try:
        return running.client.chat("slow").status == 503
    except (OSError, http.client.HTTPException):
        return True
