"""`manage.py replay`: what was decided in a recorded life, decided once more and compared."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.runtime.event_log import CannotRead
from scheduler.runtime.replay import Difference, Replay, replay


class Command(BaseCommand):
    help = (
        "Feed an event log (CORRAL_EVENT_LOG) to a fresh planner and compare what it decides with "
        "what was decided then. Exit code 1 when it differs, 2 when it cannot be replayed."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a part; the parts before it lie beside it")
        parser.add_argument(
            "--until", type=float, metavar="SECONDS", help="stop so long after the start"
        )
        parser.add_argument("--json", action="store_true", help="as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = replay(options["file"], options["until"])
        except (CannotRead, OSError) as failure:
            raise CommandError(str(failure), returncode=2) from None
        told = summary(done)
        self.stdout.write(json.dumps(told, indent=2) if options["json"] else "\n".join(text(told)))
        if done.difference is not None:
            raise CommandError("the decisions differ", returncode=1)
        if done.missing:
            raise CommandError("it cannot be replayed any further", returncode=2)


def summary(done: Replay) -> dict[str, Any]:
    """As JSON takes it."""
    instances = [
        {
            "instance": number,
            "preset": instance.preset.name,
            "state": str(instance.state),
            "leases": len(instance.leases),
        }
        for number, instance in sorted(done.planner.instances.items())
    ]
    queue = [
        {"preset": entry.preset, "waiters": entry.waiters, "oldest": done.now - entry.oldest}
        for entry in done.planner.entries(done.now)
    ]
    return {
        "life": done.life,
        "began": done.began,
        "seconds": done.seconds,
        "events": dict(sorted(done.events.items())),
        "decisions": dict(sorted(done.decisions.items())),
        "waits": _waits(sorted(done.waits)),
        "instances": instances,
        "queue": queue,
        "missing": done.missing,
        "difference": None if done.difference is None else _difference(done.difference),
    }


def _waits(waits: Sequence[float]) -> dict[str, float]:
    if not waits:
        return {"granted": 0}
    last = len(waits) - 1
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "worst": 1.0}
    return {"granted": len(waits)} | {
        name: waits[round(last * share)] for name, share in shares.items()
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "part": difference.part,
        "line": difference.line,
        "at": difference.at,
        "event": repr(difference.event),
        "recorded": [repr(decision) for decision in difference.recorded],
        "decided": [repr(decision) for decision in difference.decided],
        "failure": difference.failure,
    }


def text(told: dict[str, Any]) -> Iterator[str]:
    """A summary as lines for people."""
    yield f"life {told['life']}, began {told['began']}, {told['seconds']:.3f} s replayed"
    for title in ("events", "decisions"):
        yield f"{title}: {sum(told[title].values())}"
        yield from (f"  {count:>9} {name}" for name, count in told[title].items())
    waits = dict(told["waits"])
    yield f"waits of {waits.pop('granted')} granted requests" + "".join(
        f", {name} {seconds:.3f} s" for name, seconds in waits.items()
    )
    yield f"instances at the end: {len(told['instances'])}"
    for each in told["instances"]:
        yield f"  {each['instance']:>9} {each['preset']} {each['state']}, {each['leases']} leases"
    yield f"queue at the end: {len(told['queue'])}"
    for each in told["queue"]:
        yield f"  {each['waiters']:>9} wait for {each['preset']}, the first {each['oldest']:.3f} s"
    if told["missing"]:
        yield told["missing"]
    if told["difference"]:
        yield from _text_of_difference(told["difference"])


def _text_of_difference(difference: dict[str, Any]) -> Iterator[str]:
    yield f"first difference: {difference['part']}, line {difference['line']}, " + (
        f"{difference['at']:.6f} s after the start"
    )
    yield f"  event    {difference['event']}"
    for title in ("recorded", "decided"):
        said = difference[title] or ["nothing"]
        if title == "decided" and difference["failure"]:
            said = [difference["failure"]]
        yield from (f"  {title:<8} {decision}" for decision in said)
