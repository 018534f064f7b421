"""`manage.py logs MODEL [--follow] [--lines N]`: what its children have printed."""

from __future__ import annotations

import codecs
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from models_registry.log_redaction import harmless_lines
from models_registry.operating import Declined, preset_meant
from scheduler.commanding import SchedulerCommand
from scheduler.log_following import Following, earlier_file, last_lines
from scheduler.runtime.child_log import log_path

LINES = 50
LOOK_SECONDS = 0.2


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

    def ask(self, options: dict[str, Any]) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        path = _path_of(options["model"])
        if not options["follow"] and not any(each.exists() for each in (path, earlier_file(path))):
            raise Declined(
                f"nothing of '{options['model']}' has been logged: it has not been started yet "
                "(`manage.py load` starts it)"
            )
        following = Following(path) if options["follow"] else None
        until = None if following is None else following.begin
        for line in last_lines(path, options["lines"], until=until):
            self._write(line)
        if following is not None:
            self._follow(following)

    def _follow(self, following: Following) -> None:
        """Ctrl-C is its end, and no failure."""
        try:
            while True:
                if added := following.added():
                    self._write(added)
                else:
                    time.sleep(LOOK_SECONDS)
        except KeyboardInterrupt:
            return
        finally:
            following.close()

    def _write(self, lines: bytes) -> None:
        """Harmless they are already, as ours wrote them; not so a file that somebody put there."""
        self.stdout.write(self._decode(harmless_lines(lines)), ending="")
        self.stdout.flush()


def _path_of(name: str) -> Path:
    """Also of a preset that is offered no more, as long as its log is there. Raises Declined."""
    path = log_path(settings.CORRAL_LOG_FOLDER, name)
    if path.exists():
        return path
    preset = preset_meant(name)
    if preset.upstream_url:
        raise Declined(f"'{preset.name}' runs on a remote server, and has no log here")
    return log_path(settings.CORRAL_LOG_FOLDER, preset.name)


def _count(text: str) -> int:
    """Raises ValueError, of which argparse tells."""
    count = int(text)
    if count < 0:
        raise ValueError(text)
    return count
