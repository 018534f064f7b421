"""The gateway under a server of its own, with one child that the test plays:

    python -m tests.process.carrying_program SERVER CHILD_SOCKET

Prints its port. No key is asked for, and every request is granted at once; limits come from the
environment, as always.
"""

from __future__ import annotations

import os
import socket
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerproj.settings")


def main() -> None:
    django.setup()
    from proxy.conf import proxy_config
    from proxy.consumers import GatewayApp
    from routerproj.guard import GuardConfig
    from routerproj.serve.listening import listen
    from routerproj.servers.limits import limits_from_settings
    from routerproj.wiring import Wiring
    from tests.proxy.fakes import FakeScheduler, NoDownloads

    config = proxy_config()
    scheduler = FakeScheduler([sys.argv[2]])
    gateway = GatewayApp(config, scheduler=scheduler, downloads=NoDownloads())  # type: ignore[arg-type]
    guard = GuardConfig(config.max_body, config.body_timeout_seconds)
    wiring = Wiring(gateway, _nothing_else, guard)
    if sys.argv[1] == "daphne":
        from routerproj.servers.daphne_server import serve
    else:
        from routerproj.servers.uvicorn_server import serve
    listener: socket.socket = listen("127.0.0.1", 0)
    listener.setblocking(False)
    print(listener.getsockname()[1], flush=True)
    serve(wiring.application, [listener], limits_from_settings(), wiring.drain)


async def _nothing_else(scope: object, receive: object, send: object) -> None:
    raise ValueError("only the gateway's paths are asked for here")


if __name__ == "__main__":
    main()
