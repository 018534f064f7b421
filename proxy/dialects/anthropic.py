"""Errors as Anthropic's API writes them: for /v1/messages and what is below it."""

from __future__ import annotations

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
    kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    error = {"type": kind, "message": refused.message, "code": refused.code}
    return ErrorAnswer(status, {"type": "error", "error": error}, event="error")
