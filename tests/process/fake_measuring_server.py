#!/usr/bin/env python3
"""A llama-server that measures as it is told: well, wrongly, or not at all.

Its behaviour stands in a file named like the model file with `.flags` behind it: each preset of a
running product has its own. It also says what a real one says to --help, --version and
--list-devices, so that it can stand for the whole engine. Its lines are captured from a real one.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
HELP = TESTS / "unit" / "registry" / "help-0.3.36.txt"
CAPTURED = TESTS / "support" / "captured"
ROW = "0.00.528.902 I common_memory_breakdown_print: |   - {}|"
HEADER = (
    "0.00.528.881 I common_memory_breakdown_print: | memory breakdown [MiB] | total   free    self "
    "  model   context   compute    unaccounted |"
)
AFTER = "0.00.591.718 I common_params_fit_impl: projected to use 87 MiB of device memory"


def behaviour(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--captured", default="fit-0.3.36-host.txt", help="what it prints")
    parser.add_argument("--silent", action="store_true", help="exit 0, having said nothing")
    parser.add_argument("--hang", action="store_true", help="say nothing and do not end")
    parser.add_argument("--crash", action="store_true", help="SIGSEGV after an error line")
    parser.add_argument("--exit-code", type=int, help="after an error line")
    parser.add_argument("--nonsense", action="store_true", help="bytes, and lines that look right")
    parser.add_argument(
        "--unknown-device", action="store_true", help="a row of a device nobody has"
    )
    parser.add_argument("--absurd", action="store_true", help="a table that does not add up")
    parser.add_argument("--huge", action="store_true", help="a thousand EiB on a device")
    parser.add_argument("--half", action="store_true", help="the table's first half, then SIGKILL")
    parser.add_argument("--huge-line", type=int, help="bytes without a newline, then the table")
    parser.add_argument("--endless", action="store_true", help="lines without end")
    parser.add_argument("--measuring", action="store_true", help="report the role's own figures")
    parser.add_argument("--loads", action="store_true", help="no table: read weights, be ready")
    parser.add_argument("--grandchild", action="store_true", help="leave one holding the pipes")
    parser.add_argument("--until", type=Path, help="wait for this file before anything is said")
    parser.add_argument("--log", type=Path, help="append a line at each start")
    return parser.parse_args(argv)


def say(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr, flush=True)


def words(told: argparse.Namespace) -> list[str]:
    """The lines of those that are only that."""
    if told.unknown_device:
        row = ROW.format("Frobnicator7 (what is that) | 100 = 90 + ( 6 =  3 +  2 +  1) +  4 ")
        return [HEADER, row, AFTER]
    if told.absurd:
        return [HEADER, ROW.format("Host | 197 = 1 + 2 + 3 "), AFTER]
    if told.huge:
        return [HEADER, ROW.format(f"Host | {10**11} = {10**11} + 0 + 0 "), AFTER]
    if told.loads:
        state = 'cmd_child_to_router:state:{"state":"ready","payload":{}}'
        return ["0.00.1 I srv load_model: an older engine, without a fit stage", state]
    if told.measuring:
        devices = '[{"name":"CUDA0","model":1000,"context":200,"compute":30}]'
        payload = f'{{"min":{{"devices":{devices}}},"max":{{"devices":[]}}}}'
        return [f'cmd_child_to_router:state:{{"state":"measuring","payload":{payload}}}']
    return (CAPTURED / told.captured).read_text().splitlines()


def misbehave(told: argparse.Namespace) -> int | None:
    """What the return code is, when it ends by that."""
    if told.silent:
        return 0
    if told.hang:
        time.sleep(600)
    if told.exit_code is not None or told.crash:
        say("0.00.014.701 E llama_model_load: error loading model: it is broken")
        if told.crash:
            os.kill(os.getpid(), signal.SIGSEGV)
        return told.exit_code
    if told.nonsense:
        sys.stdout.buffer.write(b"\xff\xfe\x00 not text\n")
        sys.stdout.flush()
        say(HEADER, ROW.format("Host | many = 92 + few + 15 "), "cmd_child_to_router:state:{")
        return 0
    if told.half:
        say(HEADER, ROW.format("Host | 197 = 92 + "))
        os.kill(os.getpid(), signal.SIGKILL)
    while told.endless:
        say("0.00.000.001 I srv  chatter: " + "x" * 4000)
    return None


def main(argv: list[str]) -> int:
    if argv == ["--help"]:
        print(HELP.read_text())
        return 0
    if argv == ["--version"]:
        say("version: 0.0-fake (build 7, commit 0000000)")
        return 0
    if argv == ["--list-devices"]:
        print("Available devices:\n  CUDA0: a stand-in (1000 MiB, 900 MiB free)")
        return 0
    model = argv[argv.index("--model") + 1]
    flags = Path(f"{model}.flags")
    told = behaviour(shlex.split(flags.read_text()) if flags.is_file() else [])
    if told.log:
        with told.log.open("a") as log:
            log.write(f"{os.getpid()}\n")
    if told.grandchild and os.fork() == 0:
        time.sleep(600)
    while told.until and not told.until.exists():
        time.sleep(0.01)
    if told.huge_line:
        chunk = b"y" * (1 << 20)
        for _ in range(told.huge_line >> 20):
            sys.stderr.buffer.write(chunk)
        sys.stderr.flush()
    code = misbehave(told)
    if code is not None:
        return code
    say(*words(told))
    time.sleep(600)  # a real one would read the weights now: it is to be killed before
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
