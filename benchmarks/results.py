"""results.md: one section per benchmark, each rewritten by its own run."""

from __future__ import annotations

import re
from pathlib import Path

TITLE = "# What was measured\n\nEach section is written by its benchmark; edit none by hand.\n"


def write_section(path: Path, heading: str, text: str) -> None:
    """Replace the section `heading`, or add it at the end."""
    document = path.read_text() if path.exists() else TITLE
    section = f"## {heading}\n\n{text.strip()}\n"
    old = re.compile(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if old.search(document):
        document = old.sub(lambda _: section + "\n", document)
    else:
        document = document.rstrip() + "\n\n" + section
    path.write_text(document.rstrip() + "\n")
