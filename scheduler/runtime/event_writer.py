"""Writes the event log, in a thread: the event loop only puts each step on a list.

What is put is written within FLUSH_SECONDS, so a scheduler that is killed loses no more than that.
A part has a size, and so many of them are kept, those of earlier lives included. A disk that fails
ends the log, not the scheduling.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from scheduler.core.decisions import Decision
from scheduler.core.events import Event, PresetsChanged
from scheduler.core.values import Config, PresetSpec

from .event_log import Header, encode_gap, encode_header, encode_step, part_name

logger = logging.getLogger(__name__)

PART_BYTES = 64 << 20
PARTS_KEPT = 8
FLUSH_SECONDS = 0.1
QUEUE_LIMIT = 200_000
"""Steps that may wait to be written: more are lost, and the log says so."""

_PART = re.compile(r"events-\d{8}T\d{6}Z-[0-9a-f]+-\d{4,}\.jsonl")

Noted = tuple[float, Event, Sequence[Decision]]


@dataclass(frozen=True, slots=True)
class _Lost:
    steps: int


class EventWriter:
    """Calling it notes a step, at once, from one thread. `start()` before, `stop()` after."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        clock: Callable[[], float],
        *,
        part_bytes: int = PART_BYTES,
        parts_kept: int = PARTS_KEPT,
        queue_limit: int = QUEUE_LIMIT,
    ) -> None:
        self._folder = folder
        self._config = config
        self._clock = clock
        self._part_bytes = part_bytes
        self._parts_kept = parts_kept
        self._queue_limit = queue_limit
        self._life = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        self._part = 0
        self._bytes = 0  # in this part
        self._presets: tuple[PresetSpec, ...] = ()
        self._steps: deque[Noted | _Lost] = deque()
        self._lost = 0
        self._given_up = False
        self._file: BinaryIO | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write_all, name="event-log", daemon=True)

    def __call__(self, now: float, event: Event, decisions: Sequence[Decision]) -> None:
        if self._given_up:
            return
        if len(self._steps) >= self._queue_limit:
            if self._lost == 0:
                logger.error("the event log falls behind: steps are missing from it")
            self._lost += 1
            return
        if self._lost:
            self._steps.append(_Lost(self._lost))
            self._lost = 0
        self._steps.append((now, event, decisions))

    def start(self) -> None:
        """The first part has its header when it returns."""
        self._or_give_up(lambda: self._begin_part(self._clock()))
        self._thread.start()

    def stop(self) -> None:
        """What was noted is written."""
        if self._lost:
            self._steps.append(_Lost(self._lost))
        self._stopping.set()
        self._thread.join()

    # In the thread --------------------------------------------------------------------------

    def _write_all(self) -> None:
        while not self._stopping.wait(FLUSH_SECONDS) and not self._given_up:
            self._or_give_up(self._write_what_waits)
        self._or_give_up(self._write_what_waits)
        if self._file is not None:
            with contextlib.suppress(OSError):  # what could not be written was said above
                self._file.close()

    def _or_give_up(self, write: Callable[[], None]) -> None:
        if self._given_up:
            return
        try:
            write()
            return
        except OSError as failure:
            logger.error("the event log ends here: %s", failure)
        except Exception:
            logger.exception("the event log ends here")
        self._given_up = True
        self._steps.clear()

    def _write_what_waits(self) -> None:
        assert self._file is not None
        while self._steps:
            step = self._steps.popleft()
            if isinstance(step, _Lost):
                self._bytes += self._file.write(encode_gap(step.steps))
                continue
            now, event, decisions = step
            self._bytes += self._file.write(encode_step(now, event, decisions))
            if isinstance(event, PresetsChanged):
                self._presets = event.presets
            if self._bytes >= self._part_bytes:
                self._begin_part(now)
        self._file.flush()

    def _begin_part(self, now: float) -> None:
        if self._file is not None:
            self._file.close()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._part += 1
        path = self._folder / part_name(self._life, self._part)
        # Others may not read it: it tells who asked for what, and when.
        self._file = open(path, "xb", opener=_private)  # noqa: SIM115 - see _write_all
        began = datetime.now(UTC).isoformat()
        header = Header(self._life, self._part, began, now, self._config, self._presets)
        self._bytes = self._file.write(encode_header(header))
        self._file.flush()
        self._remove_oldest()

    def _remove_oldest(self) -> None:
        parts = sorted(path for path in self._folder.iterdir() if _PART.fullmatch(path.name))
        for path in parts[: -self._parts_kept]:
            path.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)
