"""Reads environment variables as what they should be, and names the variable when they are not.

Each question takes the names to look under, our own first and llama.cpp's after it. A variable that
is empty counts as unset: files of a container set-up cannot leave one out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import inf, isfinite

from django.core.exceptions import ImproperlyConfigured

TRUE = frozenset({"1", "true", "on", "yes", "enabled"})
FALSE = frozenset({"0", "false", "off", "no", "disabled"})


class Environment:
    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def _first(self, names: tuple[str, ...]) -> tuple[str, str] | None:
        for name in names:
            value = self._variables.get(name, "").strip()
            if value:
                return name, value
        return None

    def text(self, *names: str, default: str = "") -> str:
        found = self._first(names)
        return found[1] if found else default

    def checked(self, *names: str, check: Callable[[str], object]) -> str:
        """A text that `check` takes; it raises ValueError with what is wrong. Empty when unset."""
        found = self._first(names)
        if found is None:
            return ""
        name, value = found
        try:
            check(value)
        except ValueError as error:
            raise ImproperlyConfigured(f"{name}: {error}") from None
        return value

    def choice(self, *names: str, default: str, among: tuple[str, ...]) -> str:
        found = self._first(names)
        if found is None:
            return default
        name, value = found
        if value not in among:
            raise _nonsense(name, value, f"one of {', '.join(among)}")
        return value

    def whole(self, *names: str, default: int, least: int = 0, most: int | None = None) -> int:
        found = self._first(names)
        if found is None:
            return default
        name, text = found
        wanted = f"a whole number from {least}" + ("" if most is None else f" to {most}")
        try:
            value = int(text)
        except ValueError:
            raise _nonsense(name, text, wanted) from None
        if value < least or (most is not None and value > most):
            raise _nonsense(name, text, wanted)
        return value

    def optional_whole(self, *names: str, most: int) -> int | None:
        """From 0 to `most`; None when unset."""
        return None if self._first(names) is None else self.whole(*names, default=0, most=most)

    def seconds(self, *names: str, default: float, least: float = 0.0) -> float:
        found = self._first(names)
        if found is None:
            return default
        return _number(*found, least=least, wanted=f"a number of seconds, at least {least:g}")

    def idle_seconds(self, *names: str) -> float | None:
        """None when unset, or -1 as others write it: idle for however long."""
        found = self._first(names)
        if found is None or found[1] == "-1":
            return None
        return _number(*found, least=0.0, wanted="a number of seconds, at least 0, or -1 for never")

    def factor(self, *names: str, default: float, least: float, most: float) -> float:
        found = self._first(names)
        if found is None:
            return default
        wanted = f"a number from {least:g} to {most:g}"
        return _number(*found, least=least, most=most, wanted=wanted)

    def flag(self, *names: str, default: bool) -> bool:
        found = self._first(names)
        if found is None:
            return default
        name, text = found
        if text.lower() in TRUE:
            return True
        if text.lower() in FALSE:
            return False
        raise _nonsense(name, text, "1 or 0 (true, on, yes, false, off, no)")

    def words(self, *names: str, default: tuple[str, ...] = ()) -> list[str]:
        """A list: separated by commas, blanks around them ignored."""
        found = self._first(names)
        if found is None:
            return list(default)
        return [word.strip() for word in found[1].split(",") if word.strip()]

    def table(self, *names: str) -> dict[str, str]:
        """A JSON object of texts; empty when unset."""
        found = self._first(names)
        if found is None:
            return {}
        name, text = found
        wanted = 'a JSON object of texts, such as {"ctx-size": "4096"}'
        try:
            value = json.loads(text)
        except ValueError:
            raise _nonsense(name, text, wanted) from None
        if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise _nonsense(name, text, wanted)
        return value


def _number(name: str, text: str, *, least: float, wanted: str, most: float = inf) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _nonsense(name, text, wanted) from None
    if not isfinite(value) or not least <= value <= most:
        raise _nonsense(name, text, wanted)
    return value


def _nonsense(name: str, value: str, wanted: str) -> ImproperlyConfigured:
    shown = value if len(value) <= 80 else value[:77] + "..."
    return ImproperlyConfigured(f"{name}={shown!r} is not {wanted}")
