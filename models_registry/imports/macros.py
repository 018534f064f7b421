"""llama-swap's macros: `${name}` in its texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MACRO = re.compile(r"\$\{([A-Za-z0-9_.-]+)\}")
LONGEST = 64 << 10
"""Characters: a macro of macros may stand for more than memory holds."""

LEFT = frozenset({"PORT", "PID"})
"""They say something only of a running process; what stands around them is not taken."""


class UnknownMacro(Exception):
    """The message names it, and says what to do."""


class Macros:
    """Scalars by name. One may be made of those before it, as llama-swap has it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment` is what `${env.NAME}` stands for."""
        self._environment = environment
        self._values: dict[str, Any] = {}

    def within(self, own: Mapping[str, Any]) -> Macros:
        """These, with `own` above them. One that cannot be known is told where it is used."""
        inner = Macros(self._environment)
        inner._values = dict(self._values)
        for name, value in own.items():
            try:
                inner._values[name] = inner.expanded(value)
            except UnknownMacro as error:
                inner._values[name] = error
        return inner

    def expanded(self, value: Any) -> Any:
        """`value`, and all that is in it. A text that is nothing but a macro becomes its value, a
        number or a switch. Raises UnknownMacro."""
        if isinstance(value, str):
            whole = MACRO.fullmatch(value)
            return self._of(whole[1]) if whole else self._text(value)
        if isinstance(value, list):
            return [self.expanded(each) for each in value]
        if isinstance(value, dict):
            return {self._text(str(key)): self.expanded(each) for key, each in value.items()}
        return value

    def text(self, value: Any) -> str:
        """The same as text; empty for what is not given."""
        found = self.expanded(value)
        return "" if found is None else str(found)

    def _text(self, text: str) -> str:
        parts: list[str] = []
        length = at = 0
        for match in MACRO.finditer(text):
            parts += (text[at : match.start()], str(self._of(match[1])))
            at = match.end()
            length += sum(map(len, parts[-2:]))
            if length > LONGEST:
                raise UnknownMacro(f"its macros stand for more than {LONGEST} characters")
        return "".join([*parts, text[at:]])

    def _of(self, name: str) -> Any:
        if name in LEFT:
            return f"${{{name}}}"
        if name.startswith("env."):
            variable = name.removeprefix("env.")
            if variable not in self._environment:
                raise UnknownMacro(
                    f"${{{name}}} is not known here: write its value into the file, or import it "
                    f"by `manage.py import_llama_swap` where {variable} is set"
                )
            return self._environment[variable]
        if name not in self._values:
            raise UnknownMacro(f"${{{name}}} is a macro that is defined nowhere before")
        value = self._values[name]
        if isinstance(value, UnknownMacro):
            raise value
        return value
