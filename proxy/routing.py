"""Which paths the gateway answers; all others are Django's."""

from __future__ import annotations

from proxy.endpoints import is_known_path

_PREFIXES = ("/v1/", "/models/", "/api/")


def is_gateway_path(path: str) -> bool:
    """Also true for unknown paths under the gateway's prefixes, and for those of llama.cpp's
    that are not carried: their 404 is JSON."""
    return path == "/v1" or path.startswith(_PREFIXES) or is_known_path(path)
