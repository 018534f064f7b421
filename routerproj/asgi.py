"""Which path goes where: the gateway's own to the gateway, everything else to Django.

Around both stands the guard. The gateway runs as a plain ASGI callable under Channels' router, for
its speed (docs/decisions/0001).
"""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerproj.settings")
django.setup(set_prefix=False)

from routerproj.wiring import Wiring  # noqa: E402  (needs the apps)

wiring = Wiring.from_settings()
application = wiring.application
