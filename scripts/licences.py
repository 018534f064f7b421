"""Under which licences is what Corral runs on? (`make licences` writes docs/licences.md)

The packages say it themselves, each in one of four ways; what one does not say is in OVERRIDES.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from scripts.lock import LOCKS, locked

ROOT = Path(__file__).resolve().parent.parent

DOCUMENT = ROOT / "docs" / "licences.md"
SERVED = ("serve.txt", "engine.txt", "postgres.txt", "demo.txt")
ALLOWED = frozenset(
    {
        "0BSD",
        "AFL-2.1",
        "Apache-2.0",
        "BSD",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BlueOak-1.0.0",
        "CC0-1.0",
        "CNRI-Python",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
        "TCL",
        "Unlicense",
        "ZPL-2.1",
        "Zlib",
    }
)
"""Those that ask for no more than that their text is passed on (MPL-2.0: and their own files'
source)."""
EXCEPTIONS = {
    "psycopg": "LGPL-3.0-only",
    "psycopg-binary": "LGPL-3.0-only",
}
"""The driver for PostgreSQL: installed by who wants it, imported as it is, not passed on by us."""
OVERRIDES = {
    "huey": "MIT",
    "tiktoken": "MIT",
}
"""What their LICENSE files are, which their metadata does not name."""
CLASSIFIED = {
    "Academic Free License (AFL)": "AFL-2.1",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "DFSG approved": "",
}
SPELLINGS = {"3-Clause BSD License": "BSD-3-Clause"}
WORDS = re.compile(r"[A-Za-z0-9.+-]+")
JOINTS = {"AND", "OR", "WITH"}


def licence_of(name: str) -> str:
    """As SPDX writes it, as far as the package does. Raises PackageNotFoundError."""
    if name in OVERRIDES:
        return OVERRIDES[name]
    told = metadata(name)
    if "License-Expression" in told:
        return told["License-Expression"]
    classifiers = [each for each in told.get_all("Classifier") or [] if "License ::" in each]
    words = [CLASSIFIED.get(each.split(" :: ")[-1], each.split(" :: ")[-1]) for each in classifiers]
    if named := [word for word in words if word and word != "OSI Approved"]:
        return " OR ".join(sorted(named))
    field = "\n".join(told.get_all("License") or []).strip().splitlines()[:1]
    return SPELLINGS.get(field[0], field[0]) if field else ""


def refused(name: str, licence: str) -> str:
    """Why it may not be used; empty if it may. Each licence that it names has to be allowed."""
    if EXCEPTIONS.get(name) == licence:
        return ""
    named = [word for word in WORDS.findall(licence) if word not in JOINTS]
    if not named:
        return f"{name} does not say its licence: look, and put it into OVERRIDES"
    beyond = sorted(set(named) - ALLOWED)
    return f"{name} is under {licence}: {', '.join(beyond)} is not allowed" if beyond else ""


def packages(*locks: str) -> list[str]:
    return sorted({name for lock in locks for name in locked(LOCKS / lock)})


def document() -> str:
    rows = [f"| {name} | {licence_of(name)} |" for name in packages(*SERVED)]
    return "\n".join([*HEAD, *rows, ""])


HEAD = [
    "# Licences of what Corral runs on",
    "",
    "Written by `make licences` from what the packages say of themselves, for those of",
    "locks/serve.txt, engine.txt, postgres.txt and demo.txt; versions are there. A test holds that",
    "each licence is on a list (`scripts/licences.py`), also of what only the tests need.",
    "llama.cpp, which is inside llama-cpp-python, is MIT.",
    "",
    "| package | licence |",
    "|---|---|",
]

if __name__ == "__main__":
    try:
        DOCUMENT.write_text(document())
    except PackageNotFoundError as missing:
        sys.exit(f"licences: {missing} is not installed here: make setup-dev")
