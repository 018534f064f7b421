"""The part of Ollama's templates that a request's own `template` needs. Pure.

They are written in Go's template language. Understood are `{{ .System }}`, `{{ .Prompt }}`,
`{{ .Suffix }}` and `{{ .Response }}`, `{{ if .System }} … {{ else }} … {{ end }}`, and the dashes
that trim blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from scheduler.protocol import Refused

_FIELD = re.compile(r"\.(System|Prompt|Suffix|Response)")
_IF = re.compile(r"if \.(System|Prompt|Suffix|Response)")
_BLANKS = " \t\r\n"
MOST_IFS = 20
"""Within each other."""
LONGEST = 64 << 10
"""Characters of a template."""
MOST_TEXT = 16 << 20
"""Characters of what becomes of it: a field may be named as often as one likes."""


def rendered(template: str, values: Mapping[str, str]) -> str:
    """The prompt up to where the answer begins, which is `.Response`, or the end. Raises
    Refused. Its time grows with the lengths of both, and no faster."""
    if len(template) > LONGEST:
        raise Refused("invalid_request", f"`template` is longer than {LONGEST} characters.")
    text: list[str] = []
    size = 0
    shown: list[bool] = []  # of each `if` that is open
    for literal, action in _parts(template):
        field = _FIELD.fullmatch(action)
        visible = all(shown)
        if visible:
            text.append(literal)
        if field is None:
            _branch(action, values, shown)
        elif visible and field[1] == "Response":
            return "".join(text)
        elif visible:
            text.append(values.get(field[1], ""))
            size += len(text[-1])
            if size > MOST_TEXT:
                raise Refused("invalid_request", "`template` makes too long a prompt.")
    if shown:
        raise _not_understood("if without end")
    return "".join(text)


def _branch(action: str, values: Mapping[str, str], shown: list[bool]) -> None:
    """Raises Refused."""
    if asked := _IF.fullmatch(action):
        if len(shown) >= MOST_IFS:
            raise _not_understood("ifs within each other")
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
    while (start := template.find("{{", at)) >= 0:
        end = template.find("}}", start + 2)
        if end < 0:
            raise _not_understood(template[start : start + 40])
        literal, action = template[at:start], template[start + 2 : end]
        literal = literal.lstrip(_BLANKS) if trim else literal
        if action.startswith("- "):
            literal, action = literal.rstrip(_BLANKS), action[2:]
        trim = action.endswith(" -")
        yield literal, action.removesuffix(" -").strip()
        at = end + 2
    rest = template[at:]
    yield (rest.lstrip(_BLANKS) if trim else rest), ""


def _not_understood(action: str) -> Refused:
    return Refused(
        "invalid_request",
        f"`template`: {action[:60]!r} is not understood here. Fields (.System, .Prompt, .Suffix, "
        ".Response) and `if` are; or send `raw` with the whole prompt, or leave it to the model.",
    )
