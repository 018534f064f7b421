"""Is this text a value that the option takes? Pure; errors name the option and what it takes."""

from __future__ import annotations

import re

from django.utils.translation import gettext as _

from models_registry.errors import OptionError
from models_registry.options.catalogue import Kind, Option
from models_registry.options.option_limits import (
    AUTO,
    LAST_TOKENS,
    MOST_LAST_TOKENS,
    PATTERNS,
    POSITIVE,
    RANGES,
    text_problem,
)

LONGEST_VALUE = 64 << 10
"""Characters. The kernel takes no argument of more than 128 KiB, in bytes."""

_ON = frozenset({"on", "enabled", "true", "1"})  # llama.cpp's own words
_OFF = frozenset({"off", "disabled", "false", "0"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)


def switch(text: str) -> bool | None:
    """What llama.cpp takes for on and off; None for anything else."""
    word = text.strip().lower()
    return True if word in _ON else False if word in _OFF else None


def checked_value(option: Option, text: str, *, name: str = "") -> str:
    """`text` in its one spelling, as it is stored and rendered.

    Raises OptionError under `name` (how the option was written; its key otherwise).
    """
    name = name or option.key
    _refuse_unprintable(text, name)
    match option.kind:
        case Kind.FLAG:
            return _flag(text, name)
        case Kind.INT:
            return _integer(option, text.strip(), name)
        case Kind.FLOAT:
            if not _NUMBER.fullmatch(text.strip()):
                raise OptionError(name, _("takes a number, not %(text)s") % {"text": _quoted(text)})
            if option.key in POSITIVE and float(text) <= 0:
                raise OptionError(
                    name, _("takes a number above 0, not %(text)s") % {"text": _quoted(text)}
                )
            return text.strip()
        case Kind.CHOICE:
            return _choice(option, text.strip(), name)
        case Kind.TEXT | Kind.PAIR:
            return _text(option, text, name)


def _refuse_unprintable(text: str, name: str) -> None:
    if len(text) > LONGEST_VALUE:
        raise OptionError(
            name,
            _("its value is longer than %(LONGEST_VALUE)s characters")
            % {"LONGEST_VALUE": LONGEST_VALUE},
        )
    for character in text:
        if character != "\t" and (ord(character) < 32 or ord(character) == 127):
            raise OptionError(name, _("its value holds a line break or another control character"))
        if "\ud800" <= character <= "\udfff":
            raise OptionError(name, _("its value is not valid UTF-8"))


def _flag(text: str, name: str) -> str:
    on = switch(text)
    if on is None:
        raise OptionError(
            name, _("is a switch: write true or false, not %(text)s") % {"text": _quoted(text)}
        )
    return "true" if on else "false"


def _integer(option: Option, text: str, name: str) -> str:
    if text in option.choices:
        return text
    # A seed is unsigned, everything else a C int: beyond it the engine would not start.
    highest = 2**32 - 1 if option.hint == "SEED" else 2**31 - 1
    if not _INTEGER.fullmatch(text) or not -(2**31) <= int(text) <= highest:
        words = "".join(_(" or %(word)s") % {"word": word} for word in option.choices)
        raise OptionError(
            name,
            _("takes a whole number%(words)s, not %(text)s")
            % {"words": words, "text": _quoted(text)},
        )
    number = int(text)
    least, most = _range(option)
    own = AUTO.get(option.key)
    if not least <= number <= most and number != own:
        words = "" if own is None else _(", or %(own)s") % {"own": own}
        told = _("takes a whole number from %(least)s to %(most)s%(words)s, not %(text)s") % {
            "least": least,
            "most": most,
            "words": words,
            "text": _quoted(text),
        }
        raise OptionError(name, told)
    return str(number)


def _range(option: Option) -> tuple[int, int]:
    """What our own limit or the help says; anything when neither does."""
    if option.key in RANGES:
        return RANGES[option.key]
    if option.key in LAST_TOKENS:
        return (-1 if "-1 =" in option.help else 0), MOST_LAST_TOKENS
    told = re.fullmatch(r"<(\d+)\.\.\.(\d+)>", option.hint)
    return (int(told[1]), int(told[2])) if told else (-(2**31), 2**32 - 1)


def _text(option: Option, text: str, name: str) -> str:
    if words := text_problem(option.key, option.hint, text):
        raise OptionError(
            name, _("takes %(words)s; not %(text)s") % {"words": words, "text": _quoted(text)}
        )
    if option.key in PATTERNS:
        _refuse_bad_patterns(text, name)
    return text


def _refuse_bad_patterns(text: str, name: str) -> None:
    """Of an override, up to each `=`. The engine ends at once for a bad one."""
    for each in text.split(","):
        pattern = each.rpartition("=")[0]
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as failure:
            raise OptionError(
                name,
                _("%(pattern)s is no regular expression: %(failure)s")
                % {"pattern": _quoted(pattern), "failure": failure},
            ) from failure


def _choice(option: Option, text: str, name: str) -> str:
    for candidate in (text, text.lower()):
        if candidate in option.choices:
            return candidate
    if {"on", "off"} <= set(option.choices) and (on := switch(text)) is not None:
        return "on" if on else "off"
    if text == "-1" and "auto" in option.choices:
        return "auto"  # llama.cpp's other word for it
    raise OptionError(
        name,
        _("takes one of %(join)s, not %(text)s")
        % {"join": ", ".join(option.choices), "text": _quoted(text)},
    )


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")
