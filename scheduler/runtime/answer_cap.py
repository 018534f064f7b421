"""How many tokens an answer may have at most, as far as the request or its preset says so."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from models_registry.launch import LaunchSpec

CAPS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "num_predict")
_OPTIONS = frozenset({"-n", "--predict", "--n-predict"})


def answer_cap(asked: int | None, spec: LaunchSpec | None) -> int | None:
    """What the preset sets goes before what the client asks for (`asked`), and that before what the
    preset has for those who say nothing. None: nobody says."""
    if spec is None:
        return asked
    fixed = _cap_in(dict(spec.filters.set))
    if fixed is not None:
        return fixed
    if asked is not None and not any(name in spec.filters.strip for name in CAPS):
        return asked
    default = _cap_in(dict(spec.filters.defaults))
    return _option(spec.argv) if default is None else default


def _cap_in(values: Mapping[str, Any]) -> int | None:
    found = [values[name] for name in CAPS if name in values]
    caps = [cap for cap in found if isinstance(cap, int) and cap >= 0]
    return max(caps, default=None)


def _option(argv: tuple[str, ...]) -> int | None:
    """llama-server's own limit of every answer; a negative one is none."""
    for name, value in pairwise(argv):
        if name in _OPTIONS and value.isdecimal():
            return int(value)
    return None
