"""A short-lived child, heard until it has said enough: bounded in time and in what it prints.

It dies with us (and with the thread that runs it) as a model's child does, see
scheduler/runtime/child.py; its whole process group is killed and it is reaped, however it ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import IO

from scheduler.runtime.child import OOM_SCORE, guarded, needs_privileges
from scheduler.runtime.child_lines import text_of
from scheduler.runtime.child_log import ChildLog
from scheduler.runtime.engines.base import Command
from scheduler.runtime.line_splitter import LineSplitter

logger = logging.getLogger(__name__)

LONGEST_LINE = 64 << 10
MOST_OUTPUT = 16 << 20
"""Bytes. The engine prints 4 KiB before its table; a model with a long chat template some more."""
LOOK_EVERY_SECONDS = 0.1
LAST_OUTPUT_SECONDS = 0.5
"""How long after its exit a child's last lines may take to arrive."""


class Why(Enum):
    """Why it is no longer heard."""

    ENOUGH = auto()
    EXITED = auto()
    TOO_SLOW = auto()
    TOO_MUCH = auto()


@dataclass(frozen=True, slots=True)
class Outcome:
    why: Why
    returncode: int | None
    """None when it was killed by us."""
    words: str
    """Its last words, as a person needs them; empty when it said nothing."""


def heard_out(
    command: Command,
    enough: Callable[[str], bool],
    *,
    seconds: float,
    most_output: int = MOST_OUTPUT,
) -> Outcome:
    """Runs it and hands each line to `enough`, until that says True. Raises OSError when there is
    nothing to run. What it prints on either stream counts alike."""
    if shutil.which(command.argv[0]) is None:
        raise FileNotFoundError(f"{command.argv[0]} is missing or not executable")
    process = subprocess.Popen(
        guarded(command.argv, os.getpid(), shutil.which("setpriv"), may_gain=needs_privileges()),
        env=dict(command.env),
        stdin=subprocess.PIPE,  # kept open: its end means that we have gone
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )
    log = ChildLog(None)
    exit_code: int | None = None
    try:
        _prefer_for_oom_killer(process.pid)
        why = _listen(process, enough, log, time.monotonic() + seconds, most_output)
        exit_code = _exit_code(process.pid)
    finally:
        _end(process)
    return Outcome(why, exit_code, log.words())


def _listen(
    process: subprocess.Popen[bytes],
    enough: Callable[[str], bool],
    log: ChildLog,
    until: float,
    most_output: int,
) -> Why:
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            selector.register(_open(pipe), selectors.EVENT_READ, LineSplitter(LONGEST_LINE))
        left = most_output
        exited = False
        while selector.get_map():
            now = time.monotonic()
            if now >= until:
                return Why.EXITED if exited else Why.TOO_SLOW
            for key, _ in selector.select(min(LOOK_EVERY_SECONDS, until - now)):
                data = os.read(key.fd, 1 << 16)
                left -= len(data)
                if not data:
                    selector.unregister(key.fileobj)
                if _says_enough(key.data, data, enough, log):
                    return Why.ENOUGH
                if left < 0:
                    return Why.TOO_MUCH
            # A grandchild may hold the pipes open after it: its own end counts.
            if not exited and _exit_code(process.pid) is not None:
                exited = True
                until = min(until, time.monotonic() + LAST_OUTPUT_SECONDS)
    return _silent(process.pid, until)


def _silent(pid: int, until: float) -> Why:
    """It has closed both streams; most often it is about to exit."""
    while _exit_code(pid) is None:
        if time.monotonic() >= until:
            return Why.TOO_SLOW
        time.sleep(0.005)
    return Why.EXITED


def _says_enough(
    splitter: LineSplitter, data: bytes, enough: Callable[[str], bool], log: ChildLog
) -> bool:
    lines = splitter.feed(data) if data else [splitter.end()]
    for line in lines:
        text = text_of(line)
        if not text:
            continue
        log.add(line)
        if enough(text):
            return True
    return False


def _exit_code(pid: int) -> int | None:
    """None while it runs. It is not reaped: until then its number, and its group's, is its own."""
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        _open(pipe).close()


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("a child was started without a pipe")
    return pipe


def _prefer_for_oom_killer(pid: int) -> None:
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(OOM_SCORE))
    except OSError as failure:
        logger.debug("oom_score_adj of child %d stays as it is: %s", pid, failure)
