"""Everything that the gateway answers, found where it is declared: a path that is added is asked
for its key without anybody thinking of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.urls import URLPattern, URLResolver, get_resolver

from proxy.endpoints import BLOBS, CHANGES, ENDPOINTS, OF_MODEL, REFUSED, SOCKETS
from routerproj.api import api

Asked = tuple[str, str]
"""Method and path."""

PUBLIC = frozenset({"/health", "/v1/health", "/ready"})
"""Of the gateway's own."""
LOG_IN = frozenset({"/admin/login/", "/account/login/", "/admin/logout/", "/account/logout/"})
FOR_ANYBODY = frozenset({"/", "/admin/jsi18n/", "/language/"})
"""A redirect to the log-in, the words of date pickers in this language, and its choice, which sends
back to where one was."""
API = "/router/api"
_EXAMPLES = {
    "id": "1", "public_id": "aaaaaaaa", "request_id": "mine-1", "device": "CUDA0",
    "int": "1", "path": "1", "str": "aaaaaaaa", "slug": "a", "uuid": "0" * 32,
}  # fmt: skip


def of_the_gateway() -> list[Asked]:
    found = [(method, path) for path, each in ENDPOINTS.items() for method in each.methods]
    found += [*CHANGES]
    found += [
        (method, f"{path}?model=alpha") for path, e in OF_MODEL.items() for method in e.methods
    ]
    found += [(method, path + "x" * path.endswith("/")) for method, path in REFUSED]
    found += [("GET", "/models/alpha"), ("GET", "/v1/models/org%2Fname"), ("GET", "/v1/nosuch")]
    found += [(method, f"{BLOBS}sha256:{'0' * 64}") for method in ("HEAD", "POST")]
    return sorted({each for each in found if each[1] not in PUBLIC})


def of_the_api() -> list[Asked]:
    document = api.get_openapi_schema(path_prefix=f"{API}/")
    found = [
        (method.upper(), re.sub(r"\{(\w+)\}", lambda m: _EXAMPLES.get(m[1], "alpha"), path))
        for path, operations in document["paths"].items()
        for method in operations
    ]
    return sorted([*found, ("GET", f"{API}/openapi.json"), ("GET", f"{API}/docs")])


def of_the_pages() -> list[str]:
    return sorted({path for path in _walk(get_resolver(), "/") if not path.startswith(API)})


def sockets() -> list[str]:
    return sorted({*SOCKETS, "/admin/", "/nosuch"})


def _walk(resolver: URLResolver, before: str) -> Iterator[str]:
    for each in resolver.url_patterns:
        path = before + _example(str(each.pattern))
        if isinstance(each, URLResolver):
            yield from _walk(each, path)
        elif isinstance(each, URLPattern):
            yield path


def _example(pattern: str) -> str:
    """Of a route or a regular expression: its parameters replaced."""
    filled = re.sub(
        r"<(?:(\w+):)?(\w+)>",
        lambda m: _EXAMPLES.get(m[2], _EXAMPLES.get(m[1] or "str", "1")),
        pattern,
    )
    filled = re.sub(r"\(\?P1|\(\?P<\w+>[^)]*\)|\(\?P\w*[^)]*\)", "1", filled)
    return re.sub(r"[\^$\\?]|\.\*", "", filled)
