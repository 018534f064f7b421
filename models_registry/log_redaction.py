"""What must not stand in a log is taken out of its lines: keys, tokens, passwords, cookies.

What remains says which key it was (its public id) and nothing by which one could ask. A text is
looked at closely only where one of a few words stands in it: hardly any line holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

REDACTED = "[redacted]"
SHORTEST_SECRET = 6
"""Characters. Shorter ones are words of their own, and a log without these could not be read."""

_MARKS = (
    "ck_",
    "hf_",
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat",
    "glpat",
    "xox",
    "akia",
    "eyj",
    "bearer",
    "basic",
    "authorization",
    "api-key",
    "api_key",
    "apikey",
    "cookie",
    "csrf",
    "sessionid",
    "token=",
    'token"',
    "token'",
    "secret",
    "passw",
    "signature",
    "credential",
    "sig=",
    "key=",
    "private key",
    "@",
)
"""In lower case. Each pattern below takes a text that holds one of them."""

_BETWEEN = r"""(?:["']?\s{0,8}[:=]\s{0,8}|["']\s{0,8},\s{0,8})(?:b?["'])?+"""
"""A header's name and its value: in words, in JSON, and as Python shows a pair of bytes."""
_PATTERNS = (
    (
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?s:.*?)"
        r"(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
        REDACTED,
    ),
    (r"(\bck_[a-z2-7]{8}_)[A-Za-z0-9_-]+", rf"\1{REDACTED}"),
    (r"(ck_[a-z2-7]{8}_)[A-Za-z0-9_-]{16,}", rf"\1{REDACTED}"),  # right behind another word
    (r"\bck_[A-Za-z0-9_-]{20,}", REDACTED),
    (
        r"\b((?:hf|sk|pk|rk|gh[opsur]|github_pat|glpat|xox[abeprs])[-_])[A-Za-z0-9_-]{16,}",
        rf"\1{REDACTED}",
    ),
    (r"\bAKIA[0-9A-Z]{16}\b", REDACTED),
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", REDACTED),
    (r"(?i:\b(bearer|basic)\s{1,8}[a-z0-9._~+/-]{8,}=*)", rf"\1 {REDACTED}"),
    (rf"(?i:\b((?:set-)?cookie{_BETWEEN})[^\"'\r\n\\]+)", rf"\1{REDACTED}"),
    (
        rf"(?i:\b((?:(?:proxy-)?authorization|x-api-key|api[-_]?key){_BETWEEN}"
        r"(?:(?:bearer|basic)\s{1,8})?)(?!(?:bearer|basic)\b)[^\s\"'\\,;<\[{(`]+)",
        rf"\1{REDACTED}",
    ),
    (
        r"(?i:\b((?:sessionid|csrftoken|csrfmiddlewaretoken|(?:access_|refresh_|id_)?token|"
        r"(?:client_)?secret|passw(?:or)?d|sig|(?:x-amz-)?(?:signature|credential|security-token))"
        r"""(?:=|["']\s{0,8}:\s{0,8}b?["']))[^\s&"'\\;,]+)""",
        rf"\1{REDACTED}",
    ),
    (r"(?i:([?&]key=)[^\s&\"'\\;,]+)", rf"\1{REDACTED}"),
    (r"""(://[^\s/@:"']{0,64}:)[^\s/@"']{1,256}@""", rf"\1{REDACTED}@"),
)
_IN_TEXT = tuple((re.compile(pattern), instead) for pattern, instead in _PATTERNS)
_IN_BYTES = tuple((re.compile(p.encode()), instead.encode()) for p, instead in _PATTERNS)
_MARKS_OF_CHILDREN = (
    b"ck_", b"hf_", b"sk-", b"bearer", b"authorization", b"api-key", b"api_key", b"password", b"@",
)  # fmt: skip
"""Fewer, for each costs microseconds: what a model or its client may be given, and may print."""
# Newlines and tabs are what a log is made of; all else below a blank moves a terminal's cursor,
# changes its colours, or worse.
_HARMLESS = bytes(
    ord("?") if byte == 0x7F or (byte < 0x20 and byte not in b"\n\t") else byte
    for byte in range(256)
)
_C1_CONTROLS = re.compile(rb"\xc2[\x80-\x9f]")


class Redaction:
    """Takes out what the patterns know, and the secrets that it is told by their very text."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        told = sorted({each for each in secrets if len(each) >= SHORTEST_SECRET}, key=len)
        self._told = re.compile("|".join(map(re.escape, reversed(told)))) if told else None

    def __call__(self, text: str) -> str:
        if self._told is not None:
            text = self._told.sub(REDACTED, text)
        lowered = text.lower()
        if any(mark in lowered for mark in _MARKS):
            for pattern, instead in _IN_TEXT:
                text = pattern.sub(instead, text)
        return text


def harmless_lines(lines: bytes) -> bytes:
    """Of a child's log, as it may be kept: without secrets, and without what a terminal would obey.
    Its newlines stay."""
    lowered = lines.lower()
    if any(mark in lowered for mark in _MARKS_OF_CHILDREN):
        for pattern, instead in _IN_BYTES:
            lines = pattern.sub(instead, lines)
    if b"\xc2" in lines:
        lines = _C1_CONTROLS.sub(b"?", lines)
    return lines.translate(_HARMLESS)


def harmless_text(text: str) -> str:
    """On one line, and nothing in it that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)
