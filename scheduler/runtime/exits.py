"""How a child ended, in a value and in words. Pure."""

from __future__ import annotations

import signal

from scheduler.core.values import Exit


def exit_of(returncode: int, *, out_of_memory: bool = False, words: str = "") -> Exit:
    """From a return code as the operating system interface gives it: below 0 is a signal."""
    if returncode < 0:
        return Exit(signal=-returncode, out_of_memory=out_of_memory, words=words)
    return Exit(code=returncode, out_of_memory=out_of_memory, words=words)


def describe(exit: Exit) -> str:
    """ "exit code 1", "signal SIGSEGV", or that it never ran."""
    if exit.signal is not None:
        return f"signal {signal_name(exit.signal)}"
    if exit.code is not None:
        return f"exit code {exit.code}"
    return "not started"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)  # a real-time signal has no name
