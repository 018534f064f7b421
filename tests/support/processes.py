"""Which processes belong to a gateway, as the kernel knows it."""

from __future__ import annotations

import http.client
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from scheduler.run_folder import run_folder


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    argv: tuple[str, ...]

    @property
    def role(self) -> str:
        """serve, scheduler, web, jobs, child, measure, or the program's name for anything else."""
        for command, role in _ROLES.items():
            if command in self.argv[:6]:
                return role
        # setpriv and sh show the child's whole command line until they have become it
        sockets = [Path(word).name for word in self.argv if word.endswith(".sock")]
        if any(name.startswith("m-") for name in sockets):
            return "measure"  # a child of the jobs process: it is killed before it loads
        return "child" if sockets else Path(self.argv[0]).name

    @property
    def socket(self) -> str:
        """Where a child listens."""
        return self.argv[self.argv.index("--host") + 1]

    @property
    def preset(self) -> str:
        return self.argv[self.argv.index("--alias") + 1]


_ROLES = {"serve": "serve", "runscheduler": "scheduler", "runweb": "web", "runjobs": "jobs"}


def processes_of(var: Path) -> list[Process]:
    """Every live process with `var` as its CORRAL_VAR, or its run folder on its command line."""
    environment = f"CORRAL_VAR={var}".encode()
    folder = os.fsencode(run_folder(var))
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            process = _read(entry, environment, folder)
            if process:
                found.append(process)
    return found


def _read(entry: Path, environment: bytes, folder: bytes) -> Process | None:
    try:
        command = (entry / "cmdline").read_bytes()
        if folder not in command and environment not in (entry / "environ").read_bytes().split(
            b"\0"
        ):
            return None
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # it has gone meanwhile, or is another user's
    if state in "ZX" or not command:
        return None
    return Process(
        int(entry.name), int(parent), tuple(os.fsdecode(command).rstrip("\0").split("\0"))
    )


def busy_slots(child: Process) -> int:
    """How many of a child's slots work, as it says itself on its socket."""
    connection = http.client.HTTPConnection("child", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.settimeout(30)
        connection.sock.connect(child.socket)
        connection.request("GET", "/slots")
        slots = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return sum(slot["is_processing"] for slot in slots)
