"""What must not be kept is taken out of a text: keys, tokens, addresses, and what settings name.

By RE2: its time grows with the text and nothing else, whatever the pattern, so that no prompt and
no pattern can hold up the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

REDACTED = "[redacted]"
BUILT_IN = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    r"\bck_[a-z2-7]{8}_[A-Za-z0-9_-]{20,}",
    r"\b(?:sk|pk|rk|gh[opsur]|github_pat|glpat|hf|xox[abeprs])[-_][A-Za-z0-9_-]{16,}",
    r"\bAKIA[0-9A-Z]{16}\b",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"(?i:\b(?:bearer|basic)\s+[a-z0-9._~+/-]{8,}=*)",
    r"(?i:\b[a-z0-9._%+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){0,8}\.[a-z]{2,24}\b)",
)
"""Private keys; keys of ours and of well-known services; signed tokens; authorization; e-mail."""

Redact = Callable[[str], str]


def patterns_in(text: str) -> tuple[str, ...]:
    """One on each line. Raises ValueError for one that is none, or that takes nothing or
    everything."""
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    for pattern in found:
        if _compiled((pattern,)).search("") is not None:
            raise ValueError(f"`{pattern}` matches where nothing is")
    return found


def redactor(own: Sequence[str] = ()) -> Redact:
    """`own` patterns beside those built in."""
    patterns = (*BUILT_IN, *own)
    return lambda text: str(_compiled(patterns).sub(REDACTED, text))


@lru_cache(8)
def _compiled(patterns: tuple[str, ...]) -> Any:
    import re2  # 5 MB that only those need who store what is asked

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile("|".join(f"(?:{each})" for each in patterns), options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        words = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        raise ValueError(f"this is no regular expression of RE2: {words}") from error
