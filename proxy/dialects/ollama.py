"""Errors as Ollama writes them: for /api/ and what is below it."""

from __future__ import annotations

from proxy.dialects import ErrorAnswer
from scheduler.protocol import Refused


def error_answer(refused: Refused, model: str) -> ErrorAnswer:
    """The `code` is ours: clients look at `error` and at the status."""
    message = refused.message
    match refused.code:
        case "model_missing":
            message = "model is required"
        case "model_not_found":
            message = f'model "{model}" not found, try pulling it first'
    return ErrorAnswer(refused.kind.status, {"error": message, "code": refused.code})
