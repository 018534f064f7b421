"""The texts of our pages and their Chinese: what there is to say, what the catalogue lacks, and its
compiled form.

    python -m scripts.messages            says what is missing, and what nobody says any more
    python -m scripts.messages --compile  writes the .mo that Django reads
"""

from __future__ import annotations

import ast
import os
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APPS = ("models_registry", "scheduler", "proxy", "routerproj")
CATALOGUE = ROOT / "routerproj" / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
CALLS = {"_": 1, "gettext": 1, "gettext_lazy": 1, "gettext_noop": 1, "ngettext": 2}
"""Functions that say something, and how many of their arguments are texts."""
HEADER = (
    "Content-Type: text/plain; charset=UTF-8\\n"
    "Content-Transfer-Encoding: 8bit\\n"
    "Language: zh_Hans\\n"
    "Plural-Forms: nplurals=1; plural=0;\\n"
)
OF_THE_LOOK = (
    "Choose file to upload",
    "Dark",
    "Filters",
    "Light",
    "No results found",
    "Search apps and models...",
    "Select action",
    "Select action to run",
    "Select all rows",
    "Select record",
    "Select value",
    "System",
    "This page yielded into no results. Create a new item or reset your filters.",
    "Type to search",
)
"""Texts of django-unfold's that our pages show; it has no Chinese of its own."""
_PLACE = re.compile(r"%\((\w+)\)[sd]|\{\w*\}")
_IN_TEMPLATE = re.compile(r"_\(|gettext\(|ngettext\(")


@dataclass(frozen=True, order=True)
class Text:
    """`plural` is empty for a text that counts nothing."""

    text: str
    plural: str = ""


# What pages say ------------------------------------------------------------------------------


def said() -> set[Text]:
    """By modules, by templates, and of models."""
    from django.utils import translation

    with translation.override("en"):
        return {*_by_modules(), *_by_templates(), *_of_models()}


def _by_modules() -> Iterator[Text]:
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            source = path.read_text()
            if "gettext" in source and "migrations" not in path.parts:
                yield from _called(source)


def _by_templates() -> Iterator[Text]:
    from django.utils.translation.template import templatize

    for app in APPS:
        for path in sorted((ROOT / app / "templates").rglob("*.html")):
            # It leaves the calls of gettext and blanks for all else.
            calls = re.sub(r"\bX+\b", " ", templatize(path.read_text(), origin=str(path)))
            yield from _called("\n".join(_statements(calls)))


def _statements(templatized: str) -> Iterator[str]:
    for match in _IN_TEMPLATE.finditer(templatized):
        depth, at = 0, match.start()
        for at in range(match.end() - 1, len(templatized)):
            depth += {"(": 1, ")": -1}.get(templatized[at], 0)
            if not depth:
                break
        yield templatized[match.start() : at + 1]


def _called(source: str) -> Iterator[Text]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
        if name in CALLS and len(texts) >= CALLS[name] and texts[0]:
            yield Text(*(str(text) for text in texts[: CALLS[name]]))


def unsaid() -> list[str]:
    """Columns, actions, filters and fields of forms that Django names by their text in English, or
    by their name in the code, whatever the reader's language."""
    return [
        f"{path.relative_to(ROOT)}:{line}"
        for app in APPS
        for path in sorted((ROOT / app).rglob("*.py"))
        for line in _plain_names(ast.parse(path.read_text()))
    ]


def _plain_names(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "title":
                    yield from [each.lineno] if isinstance(each.value, ast.Constant) else []
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            name = {"admin.display": "description", "admin.action": "description"}.get(called, "")
            if called.startswith("forms.") and called.endswith("Field"):
                name = "label"
            given = {each.arg: each.value for each in node.keywords}
            hidden = "HiddenInput" in ast.unparse(node) or None in given
            if name and not hidden and isinstance(given.get(name), ast.Constant | None):
                yield node.lineno


def _of_models() -> Iterator[Text]:
    from routerproj.model_words import app_words, our_models, words_of

    yield from (Text(words) for words in (*app_words(), *OF_THE_LOOK))
    for model in our_models():
        yield from (Text(words) for words in words_of(model) if words)


# The catalogue -------------------------------------------------------------------------------


def read(path: Path = CATALOGUE) -> dict[Text, str]:
    """Raises ValueError for a line that is none of a catalogue's."""
    found: dict[Text, str] = {}
    parts: dict[str, str] = {}
    at = ""
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if "msgid" in parts:
                told = parts.get("msgstr", parts.get("msgstr[0]", ""))
                found[Text(parts["msgid"], parts.get("msgid_plural", ""))] = told
            parts = {}
            continue
        match = re.fullmatch(r'(msgid|msgid_plural|msgstr(?:\[0\])?)?\s*("(?:[^"\\]|\\.)*")', line)
        if match is None:
            raise ValueError(f"{path}:{number}: {line}")
        at = match[1] or at
        parts[at] = parts.get(at, "") + ast.literal_eval(match[2])
    found.pop(Text(""), None)
    return found


def places(text: str) -> list[str]:
    """Its placeholders, sorted."""
    return sorted(match.group() for match in _PLACE.finditer(text))


def faults() -> list[str]:
    """What is wrong with the catalogue; empty when all is well."""
    known, wanted = read(), said()
    told = [f"without Chinese: {each.text!r}" for each in sorted(wanted) if not known.get(each)]
    told += [f"said nowhere: {each.text!r}" for each in sorted(known.keys() - wanted)]
    told += [
        f"other placeholders: {each.text!r} and {words!r}"
        for each, words in sorted(known.items())
        if words and places(words) != places(each.plural or each.text)
    ]
    return told


def compiled(known: dict[Text, str]) -> bytes:
    """As gettext reads it: GNU's .mo, little-endian, its texts sorted."""
    rows = {b"": HEADER.replace("\\n", "\n").encode()}
    for each, words in known.items():
        if words:
            key = each.text + (f"\0{each.plural}" if each.plural else "")
            rows[key.encode()] = words.encode()
    ids, texts = sorted(rows), b""
    table: list[tuple[int, int]] = []
    start = 28 + 16 * len(ids)
    for half in (ids, [rows[key] for key in ids]):
        for text in half:
            table.append((len(text), start + len(texts)))
            texts += text + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(ids), 28, 28 + 8 * len(ids), 0, start)
    return head + b"".join(struct.pack("<2I", *row) for row in table) + texts


def main() -> int:
    if "--compile" in sys.argv:
        CATALOGUE.with_suffix(".mo").write_bytes(compiled(read()))
        return 0
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerproj.settings")
    import django

    django.setup(set_prefix=False)
    found = faults()
    print("\n".join(found) or "the catalogue is whole")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
