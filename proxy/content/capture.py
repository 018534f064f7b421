"""What one request asks and is answered, as far as it is kept: held in memory while it is under
way, redacted before it is written anywhere."""

from __future__ import annotations

from proxy.body import Body
from proxy.content.redacting import Redact
from proxy.content.texts import text_in
from proxy.sse import Tail
from proxy.usage.record import Content

LONGEST = 64 << 10
"""Characters that are kept of a prompt, and of an answer."""
SEEN = 1 << 20
"""Bytes of an answer that are looked at: a stream says a little in many."""
_BEYOND = 8 << 10
"""Bytes of a prompt that are looked at beyond those kept: what is cut through is still found."""


class Capture:
    """Of one request."""

    def __init__(self, redact: Redact) -> None:
        self.answer = Kept()
        self._redact = redact
        self._prompt = b""
        self._is_cut = False

    def asks(self, body: Body) -> None:
        most = 4 * LONGEST + _BEYOND  # a character takes up to four bytes
        with body.view() as view:
            self._prompt, self._is_cut = bytes(view[:most]), body.size > most

    def content(self, *, is_stream: bool, is_text: bool) -> Content:
        prompt = self._redact(self._prompt.decode("utf-8", "replace"))
        kept = bytes(self.answer.kept)
        answer = self._redact(text_in(kept, is_stream=is_stream)) if is_text else ""
        cut = self._is_cut or self.answer.is_cut or max(len(prompt), len(answer)) > LONGEST
        return Content(prompt[:LONGEST], answer[:LONGEST], cut)


class Kept(Tail):
    """A tail that keeps what goes by before it, too."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = bytearray()
        self.is_cut = False

    def push(self, chunk: bytes) -> None:
        super().push(chunk)
        room = SEEN - len(self.kept)
        self.kept += chunk[:room]
        self.is_cut = self.is_cut or len(chunk) > room
