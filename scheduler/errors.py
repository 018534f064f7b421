"""The codes of all refusals, whoever refuses: docs/errors.md explains them to clients."""

from __future__ import annotations

import math

import msgspec

from .messages.limits import Rate


class ErrorKind(msgspec.Struct, frozen=True):
    """What every dialect needs to know of a code. `retry` false: waiting does not cure it."""

    status: int
    retry: bool
    type: str  # the envelope's `type`, as llama.cpp names them


_CLIENT = "invalid_request_error"
_UNAVAILABLE = "unavailable_error"
_SERVER = "server_error"
_RATE = "rate_limit_error"

ERRORS: dict[str, ErrorKind] = {
    # Refused before the scheduler is asked
    "invalid_json": ErrorKind(400, False, _CLIENT),
    "model_missing": ErrorKind(400, False, _CLIENT),
    "invalid_request": ErrorKind(400, False, _CLIENT),
    "media_refused": ErrorKind(400, False, _CLIENT),
    "invalid_api_key": ErrorKind(401, False, "authentication_error"),
    "auth_unavailable": ErrorKind(503, True, _UNAVAILABLE),
    "database_unavailable": ErrorKind(503, True, _UNAVAILABLE),
    "host_not_allowed": ErrorKind(403, False, "permission_error"),
    "permission_denied": ErrorKind(403, False, "permission_error"),
    "not_found": ErrorKind(404, False, "not_found_error"),
    "not_supported": ErrorKind(501, False, "not_supported_error"),
    "method_not_allowed": ErrorKind(405, False, _CLIENT),
    "request_timeout": ErrorKind(408, True, _CLIENT),
    "conflict": ErrorKind(409, False, _CLIENT),
    "body_too_large": ErrorKind(413, False, _CLIENT),
    "validation_failed": ErrorKind(422, False, _CLIENT),
    "upgrade_required": ErrorKind(426, False, _CLIENT),
    "headers_too_large": ErrorKind(431, False, _CLIENT),
    "usage_unavailable": ErrorKind(503, True, _UNAVAILABLE),
    "too_many_connections": ErrorKind(503, True, _UNAVAILABLE),
    # Refused by the scheduler
    "model_not_found": ErrorKind(404, False, "not_found_error"),
    "model_removed": ErrorKind(404, False, "not_found_error"),
    "model_not_loaded": ErrorKind(400, False, _CLIENT),
    "model_downloading": ErrorKind(503, True, _UNAVAILABLE),
    "model_not_ready": ErrorKind(503, True, _UNAVAILABLE),
    "model_too_large": ErrorKind(503, False, _UNAVAILABLE),
    "preset_invalid": ErrorKind(503, False, _UNAVAILABLE),
    "model_load_failed": ErrorKind(503, False, _UNAVAILABLE),
    "model_backing_off": ErrorKind(503, True, _UNAVAILABLE),
    "model_broken": ErrorKind(503, False, _UNAVAILABLE),
    "out_of_memory": ErrorKind(503, True, _UNAVAILABLE),
    "blocked_by_pinned": ErrorKind(503, False, _UNAVAILABLE),
    "memory_in_use": ErrorKind(503, True, _UNAVAILABLE),
    "does_not_fit": ErrorKind(503, True, _UNAVAILABLE),
    "rate_limit_exceeded": ErrorKind(429, True, _RATE),
    "concurrency_limit_exceeded": ErrorKind(429, True, _RATE),
    "budget_exhausted": ErrorKind(429, False, _RATE),
    "request_exceeds_limit": ErrorKind(429, False, _RATE),
    "budget_unavailable": ErrorKind(503, True, _UNAVAILABLE),
    "queue_full": ErrorKind(503, True, _UNAVAILABLE),
    "model_queue_full": ErrorKind(429, True, _RATE),
    "tenant_queue_full": ErrorKind(429, True, _RATE),
    "queue_timeout": ErrorKind(503, True, _UNAVAILABLE),
    "request_cancelled": ErrorKind(400, False, _CLIENT),
    "conversation_lost": ErrorKind(410, False, "not_found_error"),
    "conversation_waiting": ErrorKind(503, True, _UNAVAILABLE),
    "unloaded": ErrorKind(503, True, _UNAVAILABLE),
    "shutting_down": ErrorKind(503, True, _UNAVAILABLE),
    "upstream_unavailable": ErrorKind(503, True, _UNAVAILABLE),
    "unknown_operation": ErrorKind(400, False, _CLIENT),
    "unknown_lease": ErrorKind(404, False, _CLIENT),
    "scheduler_unavailable": ErrorKind(503, True, _UNAVAILABLE),
    "media_unavailable": ErrorKind(502, True, _SERVER),
    # While the answer was under way
    "request_crashes_model": ErrorKind(500, False, _SERVER),
    "upstream_failed": ErrorKind(502, True, _SERVER),
    "request_loops": ErrorKind(508, False, _SERVER),
    "model_died": ErrorKind(502, True, _SERVER),
    "model_stopped": ErrorKind(503, True, _UNAVAILABLE),
    "first_byte_timeout": ErrorKind(504, True, _SERVER),
    "answer_timeout": ErrorKind(504, False, _SERVER),
    "internal_error": ErrorKind(500, True, _SERVER),
}


class Refused(Exception):
    """The gateway will not serve this request; `code` is one of ERRORS.

    `retry_after_seconds` is what the client is told to wait, where waiting helps; `rate` what is
    left of its limits, where it has any.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        rate: Rate | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        self.rate = rate

    @property
    def kind(self) -> ErrorKind:
        return ERRORS[self.code]


def retry_after(seconds: float) -> str:
    """The value of `Retry-After`: whole seconds, one at least, and never fewer than it takes."""
    return str(max(1, math.ceil(seconds)))
