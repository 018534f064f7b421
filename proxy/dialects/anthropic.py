"""Errors as Anthropic's API writes them: for /v1/messages and what is below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.dialects import ErrorAnswer
from scheduler.protocol import Refused

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""The words that Anthropic's clients know, by status; `api_error` is theirs for everything else."""


def error_answer(refused: Refused, model: str) -> ErrorAnswer:
    """The status is ours (503, say, not 529): proxies on the way know it."""
    status = refused.kind.status
    body = error_body(status, refused.message, {"code": refused.code})
    return ErrorAnswer(status, body, event="error")


def error_body(status: int, message: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """`more` are further members of the error, beside the two that Anthropic's clients know."""
    kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    known = {"type": kind, "message": message}
    return {"type": "error", "error": {**known, **more, **known}}
