"""CORS, which is off unless origins are named. Never with credentials: keys travel in a header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.middleware.cors import CORSMiddleware

from proxy.limits.headers import NAMES as RATE_HEADERS
from routerproj.guard_rules import LOCALHOST


def with_cors(application: Any, origins: Sequence[str]) -> Any:
    """`origins` as llama-server takes them: full ones, `*`, or `localhost` for any port of it."""
    if not origins:
        return application
    return CORSMiddleware(
        application,
        allow_origins=[origin.rstrip("/") for origin in origins if origin != "localhost"],
        allow_origin_regex=LOCALHOST if "localhost" in origins else None,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"],
        allow_credentials=False,
        expose_headers=["x-request-id", "retry-after", "x-should-retry", *RATE_HEADERS],
        max_age=600,
    )
