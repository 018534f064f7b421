"""PostgreSQL servers of the tests' own, each in a throw-away folder and on a Unix socket alone.

`python -m tests.support.postgres PROGRAM …` runs a program beside one, with its DATABASE_URL.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 60.0
STOP_SECONDS = 30.0
SOCKET = ".s.PGSQL.5432"
WHO = "corral"
UNPRIVILEGED = "postgres"
"""Whom the server runs as when root runs the tests: it refuses root. Debian's package makes it."""
CLUSTER = ["-U", WHO, "--auth=trust", "--encoding=UTF8", "--no-sync", "--no-instructions"]
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # nobody needs what a power cut would take
    "shared_buffers": "16MB",
    "autovacuum": "off",
    "log_min_messages": "fatal",
    "timezone": "Asia/Kolkata",  # none of ours: what leaves the zone to the server shows
}


@dataclass
class Cluster:
    """A server on `folder`, which `start` starts, as often as it was killed or stopped."""

    folder: Path
    programs: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = WHO) -> str:
        return f"postgres://{WHO}@/{database}?host={self.folder}"

    def start(self) -> None:
        """Returns when it answers."""
        arguments = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        arguments += ["-D", str(self.data), f"-cunix_socket_directories={self.folder}"]
        # It ends with us, however we end; SIGQUIT leaves no shared memory behind.
        command = ["setpriv", "--pdeathsig", "QUIT", *self._unprivileged(), "--"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(self.programs / "postgres"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for those who use it first
            )
        self._wait_until_it_answers()

    def kill(self) -> None:
        """SIGKILL to the whole of it, as when its machine loses power."""
        assert self.process is not None
        for pid in [*self.backends(), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)
        self.process = None

    def stop(self) -> None:
        """Whoever is connected is cut off. May be called again."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(STOP_SECONDS)
            self.process = None

    def backends(self) -> list[int]:
        """Its processes but the first."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def sql(self, statement: str, database: str = WHO) -> list[str]:
        """The lines that psql answers with."""
        whither = ["-h", self.folder, "-U", WHO, "-d", database]
        done = subprocess.run(
            [self.programs / "psql", "-XAtq", *whither, "-v", "ON_ERROR_STOP=1", "-c", statement],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def make(self) -> None:
        """The files of a new one, with an empty database.

        Its names are sorted as people of a language do, unlike SQLite and Python: `a-c` behind
        `ab`.
        """
        owner = pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None
        if owner is not None:
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        command = ["setpriv", *self._unprivileged(), "--"] if owner else []
        sorting = ["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US"]
        subprocess.run(
            [*command, self.programs / "initdb", *sorting, *CLUSTER, "-D", self.data],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        self.start()
        self.sql(f"CREATE DATABASE {WHO}", database="postgres")

    def _unprivileged(self) -> list[str]:
        if os.geteuid() != 0:
            return []
        owner = pwd.getpwnam(UNPRIVILEGED)
        return [f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]

    def _wait_until_it_answers(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            ready = subprocess.run(
                [self.programs / "pg_isready", "-q", "-h", self.folder], check=False
            )
            if ready.returncode == 0:
                return
            assert self.process.poll() is None, (self.folder / "log").read_text(errors="replace")
            time.sleep(0.05)
        raise AssertionError("PostgreSQL does not answer")


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A new one, which runs."""
    folder = Path(tempfile.mkdtemp(prefix="corral-pg-"))  # short: a socket's path has 107 bytes
    made = Cluster(folder, programs())
    try:
        made.make()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


def programs() -> Path:
    """Debian keeps each version's apart, the server's out of the search path."""
    found = {
        int(match[1]): path
        for path in Path("/usr/lib/postgresql").glob("*/bin")
        if (match := re.fullmatch(r"(\d+)", path.parent.name)) and (path / "postgres").exists()
    }
    if found:
        return found[max(found)]
    on_path = shutil.which("postgres")
    assert on_path, "there is no PostgreSQL server: scripts/setup.sh test installs one"
    return Path(on_path).resolve().parent


def main(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    with cluster() as running:
        child = subprocess.Popen(
            command, env={**environment, "DATABASE_URL": running.url()}, process_group=0
        )
        for number in (signal.SIGINT, signal.SIGTERM):  # the program ends first
            signal.signal(number, lambda number, _: child.send_signal(number))
        return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
