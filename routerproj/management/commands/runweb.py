"""`manage.py runweb`: the web process, on inherited sockets or on its own."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from routerproj.serve.listening import CannotListen, listen_on
from routerproj.servers.limits import limits_from_settings
from routerproj.wiring import Wiring
from scheduler.collecting import collect_seldom
from scheduler.heartbeat import Heartbeat


class Command(BaseCommand):
    help = "Runs the web process: the gateway, the admin, everything that speaks HTTP."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--fd",
            type=int,
            action="append",
            help="an inherited listening socket; a second one is for Ollama's clients",
        )
        parser.add_argument("--heartbeat", type=int, help="an inherited pipe, to show life on")
        parser.add_argument(
            "--server", choices=("uvicorn", "daphne"), default=settings.CORRAL_SERVER
        )

    def handle(
        self, *args: Any, fd: list[int] | None, server: str, heartbeat: int | None, **options: Any
    ) -> None:
        _allow_many_descriptors()
        try:
            listeners = (
                listen_on(settings.CORRAL_HOST, settings.CORRAL_PORT, settings.CORRAL_OLLAMA_PORT)
                if fd is None
                else [socket.socket(fileno=each) for each in fd]
            )
        except (CannotListen, OSError) as error:
            raise CommandError(f"cannot listen: {error}") from error
        for listener in listeners:
            listener.setblocking(False)
        serve_on(listeners, server, Heartbeat(heartbeat))


def serve_on(listeners: Sequence[socket.socket], server: str, heartbeat: Heartbeat) -> None:
    """Each server is imported only where it serves: daphne's import installs a reactor."""
    ollama_port = listeners[1].getsockname()[1] if len(listeners) > 1 else None
    wiring = Wiring.from_settings(heartbeat, ollama_port)
    limits = limits_from_settings()
    if server == "uvicorn":
        from routerproj.servers import uvicorn_server

        collect_seldom()
        uvicorn_server.serve(wiring.application, listeners, limits, wiring.drain)
        return
    from routerproj.servers import daphne_server

    collect_seldom()
    if not daphne_server.serve(wiring.application, listeners, limits, wiring.drain):
        raise CommandError("daphne ended by itself; the log above says why")


def _allow_many_descriptors() -> None:
    """A request holds two sockets, the client's and the child's; the usual 1,024 is soon full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it: then fewer clients
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
