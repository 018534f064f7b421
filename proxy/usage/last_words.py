"""By what one sees that the part of a stream in hand holds its end: before that goes to the client,
its usage is recorded. HTTP's own end may come later, when the client has long understood."""

from __future__ import annotations

DONE = (b"[DONE]\n\n", b"[DONE]\r\n\r\n", b'"message_stop"}\n\n')
"""How streams of OpenAI's and Anthropic's dialects end."""

_NATIVE = b'"stop":true'
_RESPONSES = b"event: response.completed\n"
_BY_PATH = {
    "/completion": _NATIVE,
    "/completions": _NATIVE,
    "/infill": _NATIVE,
    "/v1/responses": _RESPONSES,
    "/responses": _RESPONSES,
}
"""No text of a model's can look like one of them: in JSON its quotes and line ends are escaped."""


class LastWords:
    """Of one request's answer."""

    def __init__(self, path: str) -> None:
        self._words = _BY_PATH.get(path, b"")

    def are_in(self, part: bytes) -> bool:
        """`part` ends where an event ends."""
        return part.endswith(DONE) or (self._words != b"" and self._words in part)
