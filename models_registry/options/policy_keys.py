"""What a preset says to the scheduler and to lists, as `key = value`: llama.cpp's preset-only keys
and Corral's own. Pure; none of them is an option of the child.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from enum import StrEnum, auto

from django.utils.translation import gettext as _

from models_registry.errors import OptionError
from models_registry.options.option_values import switch

LONGEST_WAIT = 86_400.0
LONGEST_IDLE = 31_536_000.0
"""A year; whoever means for ever writes NEVER."""
MOST_WAITERS = 1_000_000
LEAST_TIME_OUT = 0.1
LEAST_CONTEXT = 256
"""Tokens: the engine rounds every context up to a multiple of it."""
MOST_CONTEXT = 2**31 - 1
MOST_REPLICAS = 64
LONGEST_TAGS = 500
NEVER = -1.0
"""As keep-alive: idle for however long, it does not end."""

PolicyText = str
PolicyWord = bool | int | float | str | tuple[str, ...] | None


class PolicyKind(StrEnum):
    SWITCH = auto()
    WHOLE = auto()
    SECONDS = auto()
    CHOICE = auto()
    WORDS = auto()


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """`field` is the attribute of Policy, and the preset's column unless `column` is False.
    A column at `unset` says nothing. What is not `inherited` counts for its own preset alone:
    a base never gives it to its heirs."""

    key: str
    kind: PolicyKind
    least: float = 0
    most: float = 0
    choices: tuple[str, ...] = ()
    unset: object = None
    column: bool = True
    inherited: bool = True

    @property
    def field(self) -> str:
        return self.key.replace("-", "_")

    def has_field_for(self, text: PolicyText) -> bool:
        """Whether the preset's column says `text`; at its default it says nothing."""
        return self.column and self.key != "tags" and text != policy_text_of(self, self.unset)


_KEYS = (
    PolicyKey("load-on-startup", PolicyKind.SWITCH),
    PolicyKey("stop-timeout", PolicyKind.SECONDS, most=LONGEST_WAIT),
    PolicyKey("priority", PolicyKind.CHOICE, choices=("low", "normal", "high"), unset="normal"),
    PolicyKey("max-wait", PolicyKind.SECONDS, most=LONGEST_WAIT),
    PolicyKey("queue-limit", PolicyKind.WHOLE, most=MOST_WAITERS),
    PolicyKey("min-residency", PolicyKind.SECONDS, most=LONGEST_WAIT),
    PolicyKey("keep-alive", PolicyKind.SECONDS, most=LONGEST_IDLE),
    *(
        PolicyKey(f"{kind}-timeout", PolicyKind.SECONDS, least=LEAST_TIME_OUT, most=LONGEST_WAIT)
        for kind in ("connect", "first-byte", "idle", "answer")
    ),
    PolicyKey("readiness-probe", PolicyKind.SWITCH, unset=False),
    PolicyKey("placement", PolicyKind.CHOICE, choices=("best", "now"), unset="best"),
    PolicyKey("context-cap", PolicyKind.WHOLE, least=LEAST_CONTEXT, most=MOST_CONTEXT),
    PolicyKey("replicas", PolicyKind.WHOLE, least=1, most=MOST_REPLICAS, unset=1),
    PolicyKey("pinned", PolicyKind.SWITCH, unset=False),
    PolicyKey("tags", PolicyKind.WORDS, unset="", inherited=False),
    PolicyKey("unlisted", PolicyKind.SWITCH, unset=False, inherited=False),
    PolicyKey("kv-saves", PolicyKind.SWITCH, column=False),
    PolicyKey("dedup-cache-models", PolicyKind.SWITCH, column=False),
)

POLICY_KEYS: dict[str, PolicyKey] = {key.key: key for key in _KEYS}

LINE_KEYS = frozenset(key.key for key in _KEYS if not key.column or key.unset is not None)
"""Those that a preset's extra options may hold: a field cannot say them, or at its default says
nothing, and so could not take back what a lower layer says."""


def plain_key(name: str) -> str:
    """As keys are compared: without dashes before it, and with - for _."""
    return name.strip().lstrip("-").replace("_", "-")


@functools.lru_cache(maxsize=1024)
def policy_key(name: str) -> PolicyKey | None:
    return POLICY_KEYS.get(plain_key(name))


def policy_text(name: str, text: str) -> PolicyText:
    """`text` in its one spelling, as it is stored. Raises OptionError under `name`."""
    return policy_text_of(POLICY_KEYS[plain_key(name)], policy_value(name, text))


def policy_text_of(key: PolicyKey, value: object) -> PolicyText:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return f"{value:.15g}"
    return str(value)


def policy_value(name: str, text: str) -> PolicyWord:
    """What `text` says for the key `name`. Raises OptionError."""
    key = POLICY_KEYS[plain_key(name)]
    text = text.strip()
    match key.kind:
        case PolicyKind.SWITCH:
            on = switch(text)
            if on is None:
                raise OptionError(
                    name,
                    _("is a switch: write true or false, not %(text)s") % {"text": _quoted(text)},
                )
            return on
        case PolicyKind.WHOLE:
            return _whole(key, name, text)
        case PolicyKind.SECONDS:
            return _seconds(key, name, text)
        case PolicyKind.CHOICE:
            if text.lower() not in key.choices:
                raise OptionError(
                    name,
                    _("takes one of %(join)s, not %(text)s")
                    % {"join": ", ".join(key.choices), "text": _quoted(text)},
                )
            return text.lower()
        case PolicyKind.WORDS:
            return _words(name, text)


def tag_words(text: str) -> tuple[str, ...]:
    """The words between commas, each once, in their order."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _words(name: str, text: str) -> tuple[str, ...]:
    if len(text) > LONGEST_TAGS:
        raise OptionError(
            name, _("holds more than %(LONGEST_TAGS)s characters") % {"LONGEST_TAGS": LONGEST_TAGS}
        )
    if not text.isprintable():
        raise OptionError(name, _("its value holds a control character"))
    return tag_words(text)


def _whole(key: PolicyKey, name: str, text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 12 and _within(key, int(text)):
        return int(text)
    raise OptionError(
        name,
        _("takes a whole number from %(least)s to %(most)s, not %(text)s")
        % {"least": f"{key.least:.0f}", "most": f"{key.most:.0f}", "text": _quoted(text)},
    )


def _seconds(key: PolicyKey, name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    never = key.key == "keep-alive" and number == NEVER
    if never or _within(key, number):
        return number
    for_ever = _(", or -1 for never") if key.key == "keep-alive" else ""
    raise OptionError(
        name,
        _("takes seconds from %(least)s to %(most)s%(for_ever)s, not %(text)s")
        % {
            "least": f"{key.least:g}",
            "most": f"{key.most:.0f}",
            "for_ever": for_ever,
            "text": _quoted(text),
        },
    )


def _within(key: PolicyKey, number: float) -> bool:
    return key.least <= number <= key.most


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")
