"""Who wants to come to the same instance each time, where a model runs more than once: what that
has cached of a conversation, or of a beginning that many prompts share, is then read once."""

from __future__ import annotations

import re
from hashlib import blake2b

from proxy.body import Body
from proxy.headers import RawHeaders
from scheduler.protocol import Refused

HEADER = b"x-corral-sticky"
CONVERSATION = b"x-conversation-id"
PREFIX = b"prefix"
PREFIX_BYTES = 1024
"""Of the prompt, as it stands in the body."""

_BEGINS = (b'"messages"', b'"prompt"', b'"input"', b'"content"')
_TEXT = re.compile(rb"[!-~]{1,128}")


def sticky_of(headers: RawHeaders, team: str, body: Body) -> str:
    """Requests of a team with the same text here go to the same instance; empty: anywhere. It is
    asked for by `X-Corral-Sticky` (any text, or `prefix`: by the beginning of the prompt), or by
    `X-Conversation-Id`. Raises Refused."""
    asked = dict(headers)
    text = asked.get(HEADER, b"").strip()
    if not text:
        conversation = asked.get(CONVERSATION, b"")
        return _told(team, b"c", conversation) if conversation else ""
    if not _TEXT.fullmatch(text):
        raise Refused(
            "invalid_request",
            "X-Corral-Sticky is `prefix`, or a text of 1 to 128 printable characters, no spaces.",
        )
    if text.lower() == PREFIX:
        return _told(team, b"p", _prefix(body))
    return _told(team, b"t", text)


def _prefix(body: Body) -> bytes:
    with body.view() as view:
        found = [at for key in _BEGINS if (at := view.find(key)) >= 0]
        begin = min(found, default=0)
        return view[begin : begin + PREFIX_BYTES]


def _told(team: str, kind: bytes, text: bytes) -> str:
    return blake2b(kind + team.encode() + b"\0" + text, digest_size=12).hexdigest()
