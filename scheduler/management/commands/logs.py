"""`manage.py logs MODEL [--follow] [--runs] [--run N] [--find TEXT]`: what its children have
printed."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.utils import timezone

from models_registry.log_redaction import harmless_lines
from models_registry.operating import Declined, preset_meant
from scheduler.commanding import SchedulerCommand
from scheduler.log_following import Following, found_lines, last_lines
from scheduler.run_logs import RunLog, preset_folder
from scheduler.runs import Run, runs_of

LINES = 50
LOOK_SECONDS = 0.2
MOST_FOUND = 10_000


class Command(SchedulerCommand):
    help = "Shows what a model's processes have printed, the last lines of it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", help="its name or an alias")
        parser.add_argument(
            "-f", "--follow", action="store_true", help="and what they print from now on"
        )
        parser.add_argument(
            "-n", "--lines", type=_count, default=LINES, metavar="N", help="unless told %(default)s"
        )
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--runs", action="store_true", help="which runs there are, and why they ended"
        )
        which.add_argument(
            "--run", metavar="N", help="of one run alone: its number in --runs, 1 the newest"
        )
        parser.add_argument(
            "--find", metavar="TEXT", help="only lines with it, upper and lower case alike"
        )

    def ask(self, options: dict[str, Any]) -> None:
        preset = _preset_of(options["model"])
        runs = runs_of(settings.CORRAL_LOG_FOLDER, preset)
        if not runs and not options["follow"]:
            raise Declined(
                f"nothing of '{options['model']}' has been logged: it has not been started yet "
                "(`manage.py load` starts it)"
            )
        if options["runs"]:
            for number, run in enumerate(runs, 1):
                self.stdout.write(_told(number, run))
            return
        if options["run"] is not None:
            runs = [_run_meant(options["run"], runs)]
        self._last: RunLog | None = None
        logs = [run.log for run in runs if run.log is not None]
        if options["find"]:
            for log in reversed(logs):
                found, _all = found_lines(log, options["find"], MOST_FOUND)
                self._write(log, b"".join(each.line for each in found))
            return
        follows = options["follow"] and options["run"] is None
        folder = preset_folder(settings.CORRAL_LOG_FOLDER, preset)
        following = Following(folder) if follows else None
        until = None if following is None else following.begin
        for log, lines in last_lines(logs, options["lines"], until):
            self._write(log, b"".join(lines))
        if following is not None:
            self._follow(following)

    def _follow(self, following: Following) -> None:
        """Ctrl-C is its end, and no failure."""
        try:
            while True:
                pieces = following.added()
                for piece in pieces:
                    self._write(piece.run, piece.lines)
                if not pieces:
                    time.sleep(LOOK_SECONDS)
        except KeyboardInterrupt:
            return

    def _write(self, log: RunLog, lines: bytes) -> None:
        """Harmless they are already, as ours wrote them; not so a file that somebody put there."""
        if not lines:
            return
        if self._last not in (None, log):
            self.stdout.write(f"\n==> {_moment(log.started_at)} <==\n", ending="")
        self._last = log
        self.stdout.write(harmless_lines(lines).decode(errors="replace"), ending="")
        self.stdout.flush()


def _preset_of(name: str) -> str:
    """Also one that is offered no more, as long as its logs are there. Raises Declined."""
    if preset_folder(settings.CORRAL_LOG_FOLDER, name).exists():
        return name
    preset = preset_meant(name)
    if preset.upstream_url:
        raise Declined(f"'{preset.name}' runs on a remote server, and has no log here")
    return preset.name


def _run_meant(asked: str, runs: list[Run]) -> Run:
    """Raises Declined."""
    number = int(asked) if asked.isdecimal() and len(asked) < 9 else 0
    if not 1 <= number <= len(runs):
        raise Declined(f"there is no run {asked}: they are numbered 1 to {len(runs)} in --runs")
    return runs[number - 1]


def _told(number: int, run: Run) -> str:
    row, log = run.row, run.log
    state = run.state.replace("_", " ") or "not recorded"
    if row is not None and row.ended_at is not None:
        state = f"until {_moment(row.ended_at)}: {state}"
    size = "no log" if log is None else f"{log.size / 1024:,.1f} KiB"
    return f"{number:>3}  {_moment(run.started_at)}  {state}  ({size})"


def _moment(at: Any) -> str:
    return f"{timezone.localtime(at):%Y-%m-%d %H:%M:%S}"


def _count(text: str) -> int:
    """Raises ValueError, of which argparse tells."""
    count = int(text)
    if count < 0:
        raise ValueError(text)
    return count
