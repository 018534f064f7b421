"""`manage.py simulate`: the scheduler on an imagined machine, in virtual time
(docs/scheduling.md).
"""

from __future__ import annotations

import json
import re
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from scheduler.conf import scheduler_config
from scheduler.core.values import Config, VictimPolicy
from scheduler.runtime.event_log import CannotRead, Header, Step, read_event_log
from scheduler.simulating.comparing import (
    MIXED,
    OURS,
    SAMPLE_EVERY,
    Result,
    all_for_the_document,
    compare,
    document,
)
from scheduler.simulating.policies import POLICIES, RIVALS
from scheduler.simulating.recorded import NothingRecorded, Told, recorded_trace
from scheduler.simulating.tables import as_json, details, row, text_table
from scheduler.simulating.traces import TRACES, Wish
from scheduler.simulating.workload import Trace

DOCUMENT = Path("docs/scheduling.md")
BEGIN = "<!-- simulate: begin -->"
END = "<!-- simulate: end -->"


class Command(BaseCommand):
    help = (
        "Run the scheduler on an imagined machine, in virtual time: synthetic or recorded traces, "
        "Corral's policy beside its rivals'. docs/scheduling.md says what the figures mean."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--trace", action="append", choices=sorted(TRACES), metavar="NAME",
            help=f"a synthetic trace, may be repeated ({', '.join(TRACES)}); default: {MIXED[0]}",
        )  # fmt: skip
        parser.add_argument(
            "--log", action="append", type=Path, metavar="FILE",
            help="a recorded trace: a part of the event log; may be repeated",
        )  # fmt: skip
        parser.add_argument(
            "--policy", action="append", choices=[*POLICIES, "all"], metavar="NAME",
            help=f"may be repeated ({', '.join(POLICIES)}, or all: {OURS} and its rivals); "
            f"default: {OURS}",
        )  # fmt: skip
        parser.add_argument("--requests", type=_at_least_one, help="how many; default: the trace's")
        parser.add_argument("--models", type=_at_least_one, help="how many; default: the trace's")
        parser.add_argument("--models-max", type=int, help="places; default: the trace's")
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE",
            help="a value of Corral's configuration, such as max_wait_seconds=10; may be repeated; "
            "default: this installation's settings",
        )  # fmt: skip
        parser.add_argument(
            "--estimates", type=int, default=SAMPLE_EVERY, metavar="N",
            help="compare Corral's estimate with what comes for one request in N; 0: for none",
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="all figures, for programs")
        parser.add_argument(
            "--document", action="store_true",
            help=f"all comparisons, with the default settings, into {DOCUMENT}",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        began, processor = time.monotonic(), time.process_time()
        if options["document"]:
            self._write_document(options["seed"])
        else:
            self._compare(options)
        if not options["json"]:
            seconds, worked = time.monotonic() - began, time.process_time() - processor
            self.stdout.write(f"simulated in {seconds:.1f} s, {worked:.1f} s of processor time")

    def _compare(self, options: dict[str, Any]) -> None:
        config = _configured(scheduler_config().planner, options["set"])
        policies = _policies(options["policy"])
        results = []
        for trace in _traces(options):
            result = compare(trace, policies, config, sample_every=max(0, options["estimates"]))
            results.append(as_json(trace, result.figures))
            if not options["json"]:
                self._show(result)
        if options["json"]:
            self.stdout.write(json.dumps(results, indent=2))

    def _show(self, result: Result) -> None:
        self.stdout.write(f"{result.trace.name}: {result.trace.about}")
        figures = result.figures.items()
        self.stdout.write(text_table([row(policy, figure) for policy, figure in figures]))
        for policy, figure in figures:
            if said := details(policy, figure):
                self.stdout.write(said)
        self.stdout.write("")

    def _write_document(self, seed: int) -> None:
        path = Path(settings.BASE_DIR) / DOCUMENT
        with_measured(path.read_text(), "")  # refused before, not after, the work
        results = []
        for result in all_for_the_document(Config(), seed):
            results.append(result)
            self._show(result)
        path.write_text(with_measured(path.read_text(), document(results, seed)))


def _at_least_one(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def with_measured(page: str, measured: str) -> str:
    """The page with that between its marks, and nothing else changed."""
    before, begins, rest = page.partition(BEGIN)
    _, ends, after = rest.partition(END)
    if not begins or not ends:
        raise CommandError(f"{DOCUMENT} needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{measured}\n\n{END}{after}"


def _policies(wished: list[str] | None) -> list[str]:
    names = wished or [OURS]
    return [OURS, *RIVALS] if "all" in names else list(dict.fromkeys(names))


def _traces(options: dict[str, Any]) -> Iterator[Trace]:
    wish = Wish(options["requests"], options["models"], options["seed"])
    names = options["trace"] or ([] if options["log"] else [MIXED[0]])
    traces = [TRACES[name](wish) for name in names]
    traces += [_recorded(path, options["seed"]) for path in options["log"] or []]
    for trace in traces:
        places = options["models_max"]
        yield trace if places is None else replace(trace, places=max(0, places))


def _recorded(path: Path, seed: int) -> Trace:
    try:
        lines = read_event_log(path)
        header = next(lines, None)
        if not isinstance(header, Header):
            raise CommandError(f"{path} is empty")
        told: Iterator[Told] = (
            (line.now, line.event, line.decisions) for line in lines if isinstance(line, Step)
        )
        places = header.config.models_max
        return recorded_trace(path.name, header.presets, told, places=places, seed=seed)
    except (CannotRead, NothingRecorded, OSError) as failure:
        raise CommandError(str(failure)) from None


def _configured(config: Config, wished: list[str]) -> Config:
    known = {field.name for field in fields(Config)}
    values: dict[str, Any] = {}
    for wish in wished:
        name, equals, value = wish.partition("=")
        if not equals or name not in known:
            raise CommandError(f"--set {wish}: one of {', '.join(sorted(known))}, as NAME=VALUE")
        values[name] = _value(name, value)
    return replace(config, **values)


def _value(name: str, text: str) -> Any:
    if name == "victim_policy":
        if text not in list(VictimPolicy):
            raise CommandError(f"--set {name}={text}: one of {', '.join(VictimPolicy)}")
        return VictimPolicy(text)
    if text == "none" and name == "keep_alive_seconds":
        return None
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise CommandError(f"--set {name}={text}: a number that is not negative")
    whole = isinstance(getattr(Config(), name), int)
    if whole and "." in text:
        raise CommandError(f"--set {name}={text}: a whole number")
    return int(text) if whole else float(text)
