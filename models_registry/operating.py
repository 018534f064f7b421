"""What the commands for people at the gateway's machine share: how they say no, and names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, TextIO

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandParser
from django.db import Error as DatabaseError

from models_registry.access import Asker
from models_registry.audit.actors import of_process
from models_registry.errors import ManagementRefused
from models_registry.models import Alias, Preset
from models_registry.near_names import near_names
from models_registry.ports import SchedulerRefused, SchedulerUnavailable
from models_registry.spellings import preset_called
from models_registry.terminal import Screen

REFUSED = 1
INTERRUPTED = 130
"""Exit codes; the second is what shells know for Ctrl-C."""

NO_SCHEDULER = (
    "the scheduler does not answer: start it with `manage.py serve`, or, if it runs, say by "
    "CORRAL_VAR which state folder it runs on"
)


class Declined(Exception):
    """A command cannot do what it is asked for; the message is for people."""


class OperatorCommand(BaseCommand):
    """`work` does it. What it raises of a refusal is one line on stderr, and the exit code 1."""

    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """None."""

    def handle(self, *args: Any, **options: Any) -> None:
        stream: TextIO = getattr(self.stdout, "_out")  # noqa: B009 - what Django has around it
        self.screen = Screen(stream)
        try:
            self.work(options)
        except KeyboardInterrupt:
            self.screen.clear_progress()
            raise SystemExit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read has had enough; the interpreter shall not say so at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(REFUSED) from None
        except (Declined, ManagementRefused, SchedulerRefused) as refused:
            self.decline(str(refused))
        except ValidationError as faults:
            self.decline("; ".join(faults.messages))
        except SchedulerUnavailable:
            self.decline(NO_SCHEDULER)
        except DatabaseError as error:
            self.decline(
                f"the database does not do it ({error}): is CORRAL_VAR or DATABASE_URL that of the "
                "gateway, and has `manage.py serve` been started once?"
            )

    def work(self, options: dict[str, Any]) -> None:
        raise NotImplementedError

    def decline(self, why: str) -> None:
        """Raises SystemExit."""
        self.screen.clear_progress()
        self.stderr.write(why, str)
        raise SystemExit(REFUSED)


def preset_meant(name: str) -> Preset:
    """By its name or an alias. Raises Declined, which names what is nearly called so."""
    found = preset_called(name)
    if found is not None:
        return found
    rows = (model.objects.values_list("name", flat=True) for model in (Preset, Alias))
    near = near_names(name, list(chain.from_iterable(rows)))
    hint = f"did you mean {' or '.join(near)}?" if near else "the admin lists what there is"
    raise Declined(f"no model is called '{name}': {hint}")


def operator() -> Asker:
    """Who reads the state folder owns it."""
    return Asker(of_process().actor.name, everything=True)


@contextmanager
def interrupted_by(leave: Callable[[], None]) -> Iterator[None]:
    """At Ctrl-C `leave` says what goes on without this command."""
    try:
        yield
    except KeyboardInterrupt:
        leave()
        raise
