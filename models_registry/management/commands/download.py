"""`manage.py download TARGET`: fetches a model in the background, and shows how far it is."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from models_registry.downloads import asking, shown
from models_registry.downloads.choosing import SIDECARS
from models_registry.downloads.told import kind_of, line_of, report, table_of
from models_registry.errors import ManagementRefused
from models_registry.models import Download
from models_registry.operating import Declined, OperatorCommand, interrupted_by, operator

State = Download.State

LOOK_SECONDS = 0.5
QUEUED_SECONDS = 5.0
"""After this one that nobody takes up is told why that may be."""
ENDED = (State.DONE, State.FAILED, State.CANCELLED, State.PAUSED)
ACTIONS = ("cancel", "pause", "resume")


class Command(OperatorCommand):
    help = "Fetch a model in the background, and show how far it is."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("target", nargs="?", help="user/repo[:quant], a URL, or Ollama's name")
        what.add_argument("--list", action="store_true", help="the last ones, and how far they are")
        what.add_argument("--cancel", type=int, metavar="ID", help="its unfinished files go")
        what.add_argument("--pause", type=int, metavar="ID", help="what has come is kept")
        what.add_argument("--resume", type=int, metavar="ID", help="goes on, or is tried again")
        parser.add_argument(
            "--kind",
            choices=Download.Kind.values,
            help="unless told: url with a scheme, hub with a slash, else ollama",
        )
        parser.add_argument("--revision", default="", help="branch, tag or commit (hub)")
        parser.add_argument(
            "--sidecar",
            action="append",
            choices=[*SIDECARS, "none"],
            help="companions to fetch as well; unless told mmproj",
        )
        parser.add_argument("--token-file", metavar="FILE", help="holds a token for it; -: stdin")
        parser.add_argument("--load", action="store_true", help="load it as soon as it is there")
        parser.add_argument("--no-wait", action="store_true", help="only ask for it")
        parser.add_argument("--json", action="store_true", help="with --list: one JSON value")

    def work(self, options: dict[str, Any]) -> None:
        if options["list"]:
            self._list(as_json=options["json"])
            return
        for action in ACTIONS:
            if options[action] is not None:
                row = getattr(asking, action)(options[action])
                self.screen.line(f"download {row.pk} ({row.target}): {asked(action, row)}")
                return
        row = self._begun(options)
        if options["no_wait"]:
            self.screen.line(f"{row.target} is fetched as download {row.pk}")
            return

        def leave() -> None:
            self.screen.line(
                f"{row.target} is fetched all the same, as download {row.pk}; "
                f"`manage.py download --cancel {row.pk}` ends that"
            )

        with interrupted_by(leave):
            self._watch(row.pk)

    def _list(self, *, as_json: bool) -> None:
        rows = list(asking.rows()[:50])
        if as_json:
            lines = [json.dumps([report(row) for row in rows])]
        else:
            lines = table_of(rows, self.screen.width) or ["nothing has been fetched"]
        for line in lines:
            self.screen.line(line)

    def _begun(self, options: dict[str, Any]) -> Download:
        """The one that fetches it already, if there is one."""
        kind = options["kind"] or kind_of(options["target"])
        sidecars = options["sidecar"] or ["mmproj"]
        try:
            return asking.create(
                kind,
                options["target"],
                asked_by=operator().label,
                revision=options["revision"],
                sidecars=[each for each in sidecars if each != "none"],
                token=_token(options["token_file"]),
                load=options["load"],
            )
        except ManagementRefused as refused:
            if refused.code != "conflict":
                raise
            rows = Download.objects.filter(state__in=Download.UNFINISHED, kind=kind)
            found = rows.filter(target=options["target"], revision=options["revision"]).first()
            if found is None:
                raise
            if found.state == State.PAUSED:
                found = asking.resume(found.pk)
            self.screen.line(f"it is being fetched already, as download {found.pk}")
            return found

    def _watch(self, id: int) -> None:
        """Until it has ended. Raises Declined when it has not come whole."""
        began, told = time.monotonic(), False
        while (row := asking.by_id(id)).state not in ENDED:
            self.screen.progress(line_of(row, self.screen.width), f"{row.target}: {step_of(row)}")
            if row.state == State.QUEUED and not told:
                told = time.monotonic() - began > QUEUED_SECONDS
                if told:
                    self.screen.line(
                        f"download {id} waits: others are fetched first, or no jobs process runs "
                        "(`manage.py serve` starts one)"
                    )
            time.sleep(LOOK_SECONDS)
        if row.state != State.DONE:
            why = f": {row.error}" if row.error else ""
            hint = f"; `manage.py download --resume {id}` tries again"
            raise Declined(f"{row.target}: {row.get_state_display()}{why}{hint}")
        self.screen.line(f"{row.name or row.target}: {shown.bytes_told(row.bytes_done)}, done")


def step_of(row: Download) -> str:
    """Where nothing is drawn in place: each tenth of it."""
    fraction = shown.fraction(row)
    if row.state != State.RUNNING or fraction is None:
        return str(row.get_state_display())
    return f"{10 * int(10 * fraction)} %"


def asked(action: str, row: Download) -> str:
    """A running one has not heard of it yet."""
    if row.state == State.RUNNING and row.wanted != State.RUNNING:
        return f"it will be {row.wanted} in a moment"
    return str(row.get_state_display()) if action != "resume" else "it goes on"


def _token(file: str | None) -> str:
    """Raises Declined."""
    if file is None:
        return ""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Declined(f"--token-file {file} cannot be read: {error}") from error
    return text.strip()
