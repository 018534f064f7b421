"""Which of a child's lines are its own reports, and which may be a client's text.

A child prints what clients write: a grammar that cannot be parsed goes raw to its stderr, line by
line. So where a report stands counts, and since when:

- Once a report has come on stdout, stderr is log. llama-server says `loading` there before it can
  serve any request, so that door is shut before a client can write anything.
- A build that reports on stderr only is heard there, until a report comes on stdout.
- From the first `ready` on, requests are served. A report on a stream that carries log lines too
  is then in doubt: a client may have written it. The child itself is asked before it is believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .child_lines import ChildState, NotUnderstood, Report, parse


class Stream(IntEnum):
    """By file descriptor."""

    OUT = 1
    ERR = 2


@dataclass(frozen=True, slots=True)
class InDoubt:
    """It reads like a report, on a stream on which clients' text may come."""

    report: Report


@dataclass(frozen=True, slots=True)
class NotBelieved:
    """A report where this child makes none: it is a line of the log."""

    report: Report


class Hearing:
    """One child's two streams. Pure."""

    def __init__(self) -> None:
        self._reports_on_stdout = False
        self._logs_on = {Stream.OUT: False, Stream.ERR: False}
        self._has_been_ready = False

    @property
    def stderr_is_log(self) -> bool:
        """All that comes on it from now on: the child reports on stdout."""
        return self._reports_on_stdout

    def hear(
        self, line: bytes, stream: Stream
    ) -> Report | InDoubt | NotBelieved | NotUnderstood | None:
        """None for a line of the log."""
        said = parse(line)
        if not isinstance(said, Report):
            self._logs_on[stream] = self._logs_on[stream] or bool(line.strip())
            return said
        if stream is Stream.ERR and self._reports_on_stdout:
            return NotBelieved(said)
        if stream is Stream.OUT:
            self._reports_on_stdout = True
        if self._has_been_ready and (stream is Stream.ERR or self._logs_on[stream]):
            return InDoubt(said)
        self._has_been_ready = self._has_been_ready or said.state is ChildState.READY
        return said
