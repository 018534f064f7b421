"""The measurements behind the speed claims: each writes its section of results.md.

python -m benchmarks [proxy_overhead] [swap_time] [rival_swaps] [start_options]
                     [returning_conversation] [decision_time] [starvation] [indexing]
                     [metrics_scrape] [footprint]
                     [--rounds 5] [--seconds 2] [--once]
"""

from __future__ import annotations

import argparse
import importlib
import os
import tempfile
from pathlib import Path

from benchmarks.frame import Scope, machine, say
from benchmarks.results import write_section

QUESTIONS = (
    "proxy_overhead",
    "swap_time",
    "rival_swaps",
    "start_options",
    "returning_conversation",
    "decision_time",
    "starvation",
    "indexing",
    "metrics_scrape",
    "footprint",
)
RESULTS = Path(__file__).resolve().parent / "results.md"


def main() -> None:
    default = Scope()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="*", help=f"which of {', '.join(QUESTIONS)}; none: all")
    parser.add_argument("--rounds", type=int, default=default.rounds)
    parser.add_argument("--seconds", type=float, default=default.seconds, help="of one load")
    parser.add_argument("--children", nargs="+", choices=default.children, default=default.children)
    parser.add_argument("--steps", type=int, default=default.steps, help="sizes of a sweep")
    parser.add_argument("--once", action="store_true", help="does it work? No figure counts")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file that is rewritten")
    options = parser.parse_args()
    if unknown := set(options.questions) - set(QUESTIONS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    scope = Scope(
        options.rounds,
        options.seconds,
        tuple(options.children),
        options.steps,
        options.results.resolve().parent,
        options.once,
    )
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        folder = Path(name)
        # The settings are read here too, to find the engine: on a state folder of nobody's
        os.environ |= {
            "CORRAL_VAR": str(folder / "unused"),
            "DJANGO_SETTINGS_MODULE": "routerproj.settings",
        }
        for question in options.questions or QUESTIONS:
            say(question)
            measurement = importlib.import_module(f"benchmarks.{question}")
            on = machine()
            (folder / question).mkdir()
            text = measurement.section(folder / question, scope)
            write_section(options.results, measurement.HEADING, f"{on}\n\n{text}")
            print(f"## {measurement.HEADING}\n\n{text}\n", flush=True)


if __name__ == "__main__":
    main()
