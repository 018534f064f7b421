"""A server whose answers never end as announced: `python -m tests.process.cutting_program SERVER`.

Prints its port. `/` breaks in the middle of an answer, anything else is answered whole.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerproj.settings")


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    length = (b"content-length", b"1000")
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": b"x" * 10, "more_body": True})
    if scope["path"] == "/":
        from proxy.relay import AnswerCut

        raise AnswerCut("the child died")
    await send({"type": "http.response.body", "body": b"x" * 990})


async def no_drain(seconds: float) -> None:
    pass


def main() -> None:
    django.setup()
    from routerproj.guard import Guard, GuardConfig
    from routerproj.servers.limits import limits_from_settings

    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    guarded = Guard(application, GuardConfig(1 << 20, 10.0), lambda path: True)
    if sys.argv[1] == "daphne":
        from routerproj.servers.daphne_server import serve
    else:
        from routerproj.servers.uvicorn_server import serve
    print(listener.getsockname()[1], flush=True)
    serve(guarded, [listener], limits_from_settings(), no_drain)


if __name__ == "__main__":
    main()
