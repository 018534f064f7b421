"""What of a row's values the audit trail may hold. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from models_registry.restricted import HIDDEN, masked

LONGEST = 4000
"""Characters of one value."""

_NAME = (
    r"(?<![\w.-])[\w.-]*(?:api[-_]?keys?|[-_.]key|hf[-_]?token|(?:access|auth|refresh)[-_]?token"
    r"|secret|passw(?:or)?d|credentials?|authorization|signature)[\w-]*[\"']?"
)
_VALUE = r"""(?:bearer\s+)?(?:"[^"]*"|'[^']*'|[^\s"']+)"""
_SAID = re.compile(rf"(?P<name>{_NAME})(?P<sign>\s*[:=]\s*|\s+){_VALUE}", re.IGNORECASE)
_USER_OF_URL = re.compile(r"(?<=://)[^/@\s]+@")
_IN_QUERY = re.compile(
    r"(?<=[?&])(?P<name>[\w.-]*(?:token|key|sig|secret|pass|auth|credential)[\w.-]*)=[^&\s#]+",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer\s+)[^\s\"']+", re.IGNORECASE)
_HINT = re.compile(r"key|token|secret|passw|credential|auth|bearer|signature", re.IGNORECASE)


def shown(field: str, value: Any) -> Any:
    """As it stands in the trail: whatever JSON has, no secret, and no longer than LONGEST."""
    if isinstance(value, str):
        if field == "upstream_key":
            return f"kept as {value[:8]}" if value else ""
        return without_secrets(_cut(masked(value) if field == "environment" else value))
    if value is None or isinstance(value, bool | int | float):
        return value
    if not isinstance(value, dict | list):
        return str(value)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    hidden = without_secrets(_cut(text))
    return value if hidden == text else hidden


def without_secrets(text: str) -> str:
    """What follows a name such as --api-key, the user of a URL, and what a URL is signed with."""
    if "://" in text:
        text = _USER_OF_URL.sub(f"{HIDDEN}@", text)
        text = _IN_QUERY.sub(rf"\g<name>={HIDDEN}", text)
    if _HINT.search(text) is None:
        return text
    text = _SAID.sub(rf"\g<name>\g<sign>{HIDDEN}", text)
    return _BEARER.sub(rf"\1{HIDDEN}", text)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
