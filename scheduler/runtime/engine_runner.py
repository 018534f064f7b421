"""Runs a server that knows nothing of Corral as a child that speaks llama.cpp's child protocol.

    python engine_runner.py '{"argv": ["server", "--port", "${port}"], "health": "/health"}'

`${port}` becomes a free port of 127.0.0.1, `${socket}` what stands under "socket". It says `ready`
on its stdout, with the address, once the health path answers 200 and, for a port, whoever listens
there is of the server's own tree; a port that was taken meanwhile is given up once for another one.
What the server prints, on either stream, goes to stderr: nobody but the runner reports.

`exit` on stdin sends SIGTERM to the server's tree and waits for it. SIGTERM, the parent's death and
the end of stdin kill the tree, whatever it has forked: the runner is its subreaper. The server's
own end is the runner's: with its exit code, or by its signal.

Run as a program of its own, on the standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
EXIT = b"cmd_router_to_child:exit"
PORTS_TRIED = 2
POLL_SECONDS = 0.1
ASK_SECONDS = 5.0
LONGEST_LINE = 1024
PROC = Path("/proc")
LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
"""127.0.0.1, ::1 and ::ffff:127.0.0.1, as the kernel's tables have them."""

_libc = ctypes.CDLL(None, use_errno=True)


class PortTaken(Exception):
    """Somebody else listens on the port that was chosen."""


def prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def say(text: str) -> None:
    """Among the log lines of the server."""
    os.write(2, f"runner: {text}\n".encode(errors="replace"))


def report(state: str, **payload: Any) -> None:
    told = json.dumps({"state": state, "payload": payload})
    os.write(1, f"cmd_child_to_router:state:{told}\n".encode())


# The tree -----------------------------------------------------------------------------------


def descendants() -> list[int]:
    """Of this process: all that the server has started, by itself or in the second place."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        todo += (own := children.get(todo.pop(), []))
        found += own
    return found


def send(number: signal.Signals) -> bool:
    """To the whole tree; whether there was anybody."""
    pids = descendants()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return bool(pids)


def reap() -> dict[int, int]:
    """The wait status of each child that has ended."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return ended


def kill_tree() -> None:
    while send(signal.SIGKILL):
        reap()
        time.sleep(0.005)


# Who listens --------------------------------------------------------------------------------


def listeners(port: int) -> dict[str, str]:
    """Of each socket that listens on `port` of any address: its inode, and that address."""
    found: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for row in (PROC / "self/net" / table).read_text().splitlines()[1:]:
                fields = row.split()
                address, _, number = fields[1].rpartition(":")
                if fields[3] == "0A" and int(number, 16) == port:
                    found[fields[9]] = address
    return found


def sockets_of(pids: list[int]) -> set[str]:
    inodes: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(PROC / str(pid) / "fd"):  # noqa: PTH208 - one call, no objects
                with contextlib.suppress(OSError):
                    target = os.readlink(PROC / str(pid) / "fd" / name)  # noqa: PTH115 - the same
                    if target.startswith("socket:["):
                        inodes.add(target[8:-1])
    return inodes


def is_ours(port: int) -> bool:
    """Whether the server listens there; False while nobody does. Raises PortTaken."""
    there = listeners(port)
    if not there:
        return False
    foreign = there.keys() - sockets_of(descendants())
    if foreign & listeners(port).keys():  # unless it has gone between the two looks
        raise PortTaken
    return not foreign


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# Health -------------------------------------------------------------------------------------


def answers_200(address: str, path: str) -> bool:
    """Over HTTP/1.0, so that the server closes the connection; only its first line is read."""
    unix = address.startswith("/")
    host, _, port = address.rpartition(":")
    place = address if unix else (host, int(port))
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as connection:
        connection.settimeout(ASK_SECONDS)
        try:
            connection.connect(place)
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            with connection.makefile("rb") as answer:
                words = answer.readline(LONGEST_LINE).split()
        except OSError:
            return False
    return len(words) > 1 and words[0].startswith(b"HTTP/") and words[1] == b"200"


class Asking(threading.Thread):
    """Asks for the health path again and again once it `may` (nobody else is ever asked);
    `answered` is set by the first 200."""

    def __init__(self, address: str, path: str, wake: int) -> None:
        super().__init__(daemon=True)
        self.answered = False
        self.may = threading.Event()
        self._over = threading.Event()
        self._address = address
        self._path = path
        self._wake = wake

    def run(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            if self.may.is_set() and not self.answered and answers_200(self._address, self._path):
                self.answered = True
                os.write(self._wake, b"\0")

    def end(self) -> None:
        self._over.set()
        self.join()


# The runner ---------------------------------------------------------------------------------


class Runner:
    """`run` returns the wait status with which the server ended; 0 when it was not asked for."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self._argv: list[str] = wanted["argv"]
        self._health: str = wanted["health"]
        self._socket: str = wanted.get("socket", "")
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)
        os.set_blocking(0, False)
        self._said = b""
        self._stopping = False
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only for its byte in the pipe

    def run(self) -> int:
        report("loading")
        for _ in range(PORTS_TRIED):
            port = 0 if self._socket else free_port()
            try:
                return self._one(port)
            except PortTaken:
                say(f"port {port} was taken by another process before the server had it")
                kill_tree()
        say("a second port was taken as well: it is given up")
        return 1 << 8

    def _one(self, port: int) -> int:
        address = self._socket or f"127.0.0.1:{port}"
        server = self._started({"${port}": str(port), "${socket}": self._socket})
        asking = Asking(address, self._health, self._wake)
        asking.start()
        try:
            return self._until_it_ends(server, address, port, asking)
        finally:
            kill_tree()  # first: what it is being asked for may never be answered
            asking.end()

    def _until_it_ends(self, server: int, address: str, port: int, asking: Asking) -> int:
        ready = False
        while True:
            ended = reap()
            if server in ended:
                if not ready and not self._stopping:
                    _look_why(port, ended[server])
                return ended[server]
            if self._asked_to_end():
                return 0
            if not ready and (not port or is_ours(port)):
                asking.may.set()
            if not ready and asking.answered and (not port or is_ours(port)):
                ready = True
                asking.end()
                _warn_of_listeners(port)
                report("ready", address=address)
            self._wait(None if ready else POLL_SECONDS)

    def _started(self, values: dict[str, str]) -> int:
        def with_death_signal() -> None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != runner:
                os._exit(1)

        argv = []
        for word in self._argv:
            for name, value in values.items():
                word = word.replace(name, value)
            argv.append(word)
        runner = os.getpid()
        server = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=2,
            preexec_fn=with_death_signal,
        )
        server.returncode = 0  # it is reaped here, with all others
        return server.pid

    def _wait(self, seconds: float | None) -> None:
        select.select([0, self._woken], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            while os.read(self._woken, 4096):
                pass

    def _asked_to_end(self) -> bool:
        """At once, that is: `exit` asks the server first, and its end is waited for."""
        try:
            said = os.read(0, 4096)
        except BlockingIOError:
            return False
        if not said:
            return True
        *lines, self._said = (self._said + said).split(b"\n")
        if not self._stopping and EXIT in (line.strip() for line in lines):
            self._stopping = True
            send(signal.SIGTERM)
        return False


def _look_why(port: int, status: int) -> None:
    """Why a server has ended before it was healthy. Raises PortTaken."""
    if port:
        is_ours(port)  # it may have ended because somebody else is there
    if status == 0:
        say("the command failed to stay: it has to run in the foreground until it is ended")


def _warn_of_listeners(port: int) -> None:
    if any(address not in LOOPBACK for address in listeners(port).values()):
        say("it listens beyond this machine, past Corral's keys: tell it to listen on 127.0.0.1")


def _killed(*_: object) -> None:
    kill_tree()
    os._exit(128 + signal.SIGTERM)


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, _killed)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        status = Runner(json.loads(argv[0])).run()
    except OSError as failure:
        say(f"it cannot be run: {failure}")
        return 127
    finally:
        kill_tree()
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError):  # SIGKILL has no handler to be reset
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return os.WEXITSTATUS(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
