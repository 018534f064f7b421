"""What is started for a preset as a section of llama.cpp's INI, as its router shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from models_registry.ini.text import key_lines
from models_registry.options.catalogue import Catalogue, Kind


def preset_text(name: str, argv: Sequence[str], catalogue: Catalogue) -> str:
    """`argv` are the arguments that were rendered with the same catalogue."""
    pairs = _pairs(argv, catalogue)
    lines = chain.from_iterable(key_lines(key, value) for key, value in pairs)
    return "\n".join((f"[{name}]", *lines, ""))


def _pairs(argv: Sequence[str], catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    rest = iter(argv)
    for token in rest:
        match = catalogue.find_token(token)
        if match is not None and match.option.kind is Kind.FLAG:
            yield match.option.key, "false" if match.negated else "true"
        else:
            yield match.option.key if match else token.lstrip("-"), next(rest, "")
