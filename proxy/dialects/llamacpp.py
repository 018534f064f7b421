"""Errors as llama.cpp's router writes them: for its own paths, which have no /v1 prefix.

Two differences to it. `code` is our code, as in every dialect, and the integer that llama.cpp puts
there stands in `status`. And a 404 keeps its own message: llama.cpp overwrites each one with
"File Not Found".
"""

from __future__ import annotations

from proxy.dialects import ErrorAnswer
from scheduler.protocol import Refused


def error_answer(refused: Refused, model: str) -> ErrorAnswer:
    status, message = refused.kind.status, refused.message
    match refused.code:
        case "model_missing":
            message = "model name is missing from the request"
        case "model_not_found":
            status = 400
            message = f"model '{model}' not found" if model else message
        case "model_not_loaded":
            message = "model is not loaded"
    kind = "invalid_request_error" if status == 400 else refused.kind.type
    error = {"message": message, "type": kind, "code": refused.code, "status": status}
    return ErrorAnswer(status, {"error": error})
