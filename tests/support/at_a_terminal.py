"""A program at a terminal: what it shows there, and what somebody types."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

CTRL_C, CTRL_D = "\x03", "\x04"
COLUMNS, LINES = 100, 30


class Terminal:
    """`shown` is all that came so far, as it came."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.shown = ""
        self._process = process
        self._master = master

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, text: str, seconds: float = 60.0) -> str:
        """All that is shown, once `text` is in it."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} is not shown: {self.shown!r}"
            assert self._read(0.5), f"it has ended without {text!r}: {self.shown!r}"
        return self.shown

    def forget(self) -> None:
        self.shown = ""

    def end(self, seconds: float = 60.0) -> int:
        """Its exit code, once it has ended by itself."""
        deadline = time.monotonic() + seconds
        while self._read(0.5):
            assert time.monotonic() < deadline, f"it has not ended: {self.shown!r}"
        return self._process.wait(seconds)

    def _read(self, seconds: float) -> bool:
        """Whether it may show more."""
        if not select.select([self._master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # so a pseudo-terminal says that its last user has gone
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)


@contextmanager
def at_a_terminal(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Terminal]:
    """The program gets a session of its own, so that Ctrl-C reaches it alone."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    without = ("COLUMNS", "LINES", "NO_COLOR")
    process = subprocess.Popen(
        # What runs in the background of a shell ignores Ctrl-C, and hands that on
        ["setsid", "--ctty", "env", "--default-signal=INT", *command],
        env={name: value for name, value in environment.items() if name not in without}
        | {"TERM": "xterm"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        os.close(master)
