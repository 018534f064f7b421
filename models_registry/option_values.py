"""Is this text a value that the option takes? Pure; errors name the option and what it takes."""

from __future__ import annotations

import re

from models_registry.catalogue import Kind, Option
from models_registry.errors import OptionError

LONGEST_VALUE = 64 << 10
"""Characters. The kernel takes no argument of more than 128 KiB, in bytes."""

_LIMITS = {
    "parallel": (1, 256),
    "ctx-size": (0, 1 << 24),
    "main-gpu": (-1, 255),
    "batch-size": (1, 1 << 20),
    "ubatch-size": (1, 1 << 20),
    "sleep-idle-seconds": (1, 2**31 - 1),
}
"""What nobody means is a slip of the finger. The engine itself starts with no more than 256 slots,
and takes any context until its memory is not there; -1 is no GPU. It does not start with a sleep
after 0 seconds."""

_AUTO = {"parallel": -1, "sleep-idle-seconds": -1}
"""Beyond the limit, and yet taken: the engine's word for its own choice, or for never."""

_ON = frozenset({"on", "enabled", "true", "1"})  # llama.cpp's own words
_OFF = frozenset({"off", "disabled", "false", "0"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)

_MASK = (re.compile(r"(0[xX])?[0-9a-fA-F]+"), "a mask in hexadecimal digits, ff or 0xff")
_CPUS = (re.compile(r"[0-9]{0,3}-[0-9]{0,3}"), "a range of CPUs, 0-3")
_SHARE = r"\s*(?:[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})"
_SHARES = (
    re.compile(rf"{_SHARE}(?:[,/]{_SHARE}){{0,15}}\s*"),
    "up to 16 numbers with commas between them, 3,1",
)
"""The engine has room for 16 devices."""
_OVERRIDES = (
    re.compile(r"[^=,]+=[^,]*[^=,\s](?:,[^=,]+=[^,]*[^=,\s])*"),
    r"patterns of tensors' names, each with where they go: blk\.[0-3]\..*=CPU",
)
_FORMS = {
    "override-tensor": _OVERRIDES,
    "override-tensor-draft": _OVERRIDES,
    "tensor-split": _SHARES,
    "cpu-mask": _MASK,
    "cpu-mask-batch": _MASK,
    "cpu-mask-draft": _MASK,
    "cpu-mask-batch-draft": _MASK,
    "cpu-range": _CPUS,
    "cpu-range-batch": _CPUS,
    "cpu-range-draft": _CPUS,
}
"""Texts that the engine reads further, and does not start with when it cannot."""


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
                raise OptionError(name, f"takes a number, not {_quoted(text)}")
            return text.strip()
        case Kind.CHOICE:
            return _choice(option, text.strip(), name)
        case Kind.TEXT | Kind.PAIR:
            return _text(option, text, name)


def _refuse_unprintable(text: str, name: str) -> None:
    if len(text) > LONGEST_VALUE:
        raise OptionError(name, f"its value is longer than {LONGEST_VALUE} characters")
    for character in text:
        if character != "\t" and (ord(character) < 32 or ord(character) == 127):
            raise OptionError(name, "its value holds a line break or another control character")
        if "\ud800" <= character <= "\udfff":
            raise OptionError(name, "its value is not valid UTF-8")


def _flag(text: str, name: str) -> str:
    on = switch(text)
    if on is None:
        raise OptionError(name, f"is a switch: write true or false, not {_quoted(text)}")
    return "true" if on else "false"


def _integer(option: Option, text: str, name: str) -> str:
    if text in option.choices:
        return text
    # A seed is unsigned, everything else a C int: beyond it the engine would not start.
    highest = 2**32 - 1 if option.hint == "SEED" else 2**31 - 1
    if not _INTEGER.fullmatch(text) or not -(2**31) <= int(text) <= highest:
        words = "".join(f" or {word}" for word in option.choices)
        raise OptionError(name, f"takes a whole number{words}, not {_quoted(text)}")
    number = int(text)
    least, most = _range(option)
    if not least <= number <= most and number != _AUTO.get(option.key):
        raise OptionError(name, f"takes a whole number from {least} to {most}, not {_quoted(text)}")
    return str(number)


def _range(option: Option) -> tuple[int, int]:
    """What our own limit or the help says; anything when neither does."""
    if option.key in _LIMITS:
        return _LIMITS[option.key]
    told = re.fullmatch(r"<(\d+)\.\.\.(\d+)>", option.hint)
    return (int(told[1]), int(told[2])) if told else (-(2**31), 2**32 - 1)


def _text(option: Option, text: str, name: str) -> str:
    if option.key in _FORMS:
        form, words = _FORMS[option.key]
        if not form.fullmatch(text):
            raise OptionError(name, f"takes {words}; not {_quoted(text)}")
        if form is _OVERRIDES[0]:
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
                name, f"{_quoted(pattern)} is no regular expression: {failure}"
            ) from failure


def _choice(option: Option, text: str, name: str) -> str:
    for candidate in (text, text.lower()):
        if candidate in option.choices:
            return candidate
    if {"on", "off"} <= set(option.choices) and (on := switch(text)) is not None:
        return "on" if on else "off"
    raise OptionError(name, f"takes one of {', '.join(option.choices)}, not {_quoted(text)}")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")
