"""Errors as OpenAI's API writes them: for everything under /v1/."""

from __future__ import annotations

from proxy.dialects import ErrorAnswer
from scheduler.protocol import Refused


def error_answer(refused: Refused, model: str) -> ErrorAnswer:
    kind = refused.kind
    param = "model" if refused.code in ("model_missing", "model_not_found") else None
    error = {
        "message": refused.message,
        "type": kind.type,
        "param": param,
        "code": refused.code,
    }
    return ErrorAnswer(kind.status, {"error": error})
