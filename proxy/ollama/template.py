"""The part of Ollama's templates that a request's own `template` needs. Pure.

They are written in Go's template language. Understood are `{{ .System }}`, `{{ .Prompt }}`,
`{{ .Suffix }}` and `{{ .Response }}`, `{{ if .System }} … {{ else }} … {{ end }}`, and the dashes
that trim blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from scheduler.protocol import Refused

_ACTION = re.compile(r"\{\{(- )?\s*(.*?)\s*( -)?\}\}", re.DOTALL)
_FIELD = re.compile(r"\.(System|Prompt|Suffix|Response)")
_IF = re.compile(r"if \.(System|Prompt|Suffix|Response)")
_BLANKS = " \t\r\n"


def rendered(template: str, values: Mapping[str, str]) -> str:
    """The prompt up to where the answer begins, which is `.Response`, or the end. Raises
    Refused."""
    text: list[str] = []
    shown: list[bool] = []  # of each `if` that is open
    for literal, action in _parts(template):
        if all(shown):
            text.append(literal)
        field = _FIELD.fullmatch(action)
        if field is None:
            _branch(action, values, shown)
        elif all(shown) and field[1] == "Response":
            return "".join(text)
        elif all(shown):
            text.append(values.get(field[1], ""))
    if shown:
        raise _not_understood("if without end")
    return "".join(text)


def _branch(action: str, values: Mapping[str, str], shown: list[bool]) -> None:
    """Raises Refused."""
    if asked := _IF.fullmatch(action):
        shown.append(bool(values.get(asked[1], "")))
    elif action == "else" and shown:
        shown[-1] = not shown[-1]
    elif action == "end" and shown:
        shown.pop()
    elif action and not action.startswith("/*"):
        raise _not_understood(action)


def _parts(template: str) -> Iterator[tuple[str, str]]:
    """A text and the action after it; an empty one after the last."""
    at, trim = 0, False
    for action in _ACTION.finditer(template):
        literal = template[at : action.start()]
        literal = literal.lstrip(_BLANKS) if trim else literal
        yield (literal.rstrip(_BLANKS) if action[1] else literal), action[2]
        at, trim = action.end(), bool(action[3])
    rest = template[at:]
    if "{{" in rest:
        raise _not_understood(rest[rest.index("{{") :][:40])
    yield (rest.lstrip(_BLANKS) if trim else rest), ""


def _not_understood(action: str) -> Refused:
    return Refused(
        "invalid_request",
        f"`template`: {action[:60]!r} is not understood here. Fields (.System, .Prompt, .Suffix, "
        ".Response) and `if` are; or send `raw` with the whole prompt, or leave it to the model.",
    )
