"""The log of a model as its page shows it: the last lines, of one run or of all, or those in which
a text stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from models_registry.log_redaction import harmless_lines
from scheduler.log_following import found_lines, last_lines
from scheduler.run_logs import RunLog
from scheduler.runs import Run, runs_of

from .history import MOST, moment, state_told
from .log_socket import MOST_LINES

LONGEST_FIND = 200


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines of one run."""

    title: str
    text: str


def log_of(logs: Path, preset: str, run: str, find: str) -> dict[str, Any]:
    """For the template. A run that is not known, or has no log any more, is all of them."""
    runs = [each for each in runs_of(logs, preset, MOST) if each.log is not None]
    chosen = [each for each in runs if each.key == run] or runs
    files = [each.log for each in chosen if each.log is not None]
    find = find.strip()[:LONGEST_FIND]
    pieces, told = _found(files, find) if find else _last(files)
    return {
        "run": chosen[0].key if run and len(chosen) == 1 else "",
        "find": find,
        "runs": [(each.key, _called(each)) for each in runs],
        "pieces": pieces,
        "told": told,
    }


def _called(run: Run) -> str:
    return f"{moment(run.started_at)}, {state_told(run)}"


def _last(files: Sequence[RunLog]) -> tuple[list[Piece], str]:
    found = last_lines(files, MOST_LINES)
    pieces = [_piece(log, b"".join(lines)) for log, lines in found]
    count = sum(len(lines) for _log, lines in found)
    if not count:
        return [], _("Nothing has been printed.")
    return pieces, _("The last lines: %(count)s.") % {"count": count}


def _found(files: Sequence[RunLog], find: str) -> tuple[list[Piece], str]:
    """The newest that fit, the oldest of them first."""
    pieces: list[Piece] = []
    shown = together = 0
    for log in files:
        found, count = found_lines(log, find, MOST_LINES - shown)
        together += count
        shown += len(found)
        if found:
            lines = b"".join(b"%d: %b" % (each.number, each.line) for each in found)
            pieces.insert(0, _piece(log, lines))
    named = {"count": together, "find": find, "shown": shown}
    if shown < together:
        return pieces, _("Lines with “%(find)s”: %(count)s; the last %(shown)s are shown.") % named
    return pieces, _("Lines with “%(find)s”: %(count)s.") % named


def _piece(log: RunLog, lines: bytes) -> Piece:
    """Harmless they are already, as ours wrote them; not so a file that somebody put there."""
    return Piece(title_of(log), harmless_lines(lines).decode(errors="replace"))


def title_of(log: RunLog) -> str:
    return _("Run of %(at)s") % {"at": moment(log.started_at)}
