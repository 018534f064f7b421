"""Filtered bodies, against the plain way of doing it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from proxy.filtering import Effects, _changed, _parts
from scheduler.protocol import Filters, Refused

names = some.sampled_from(["a", "b", "c", "d", "é", "model", "", '"\\']) | some.text(max_size=3)
values = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**40), 2**40) | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = some.dictionaries(names, values, max_size=6)
filters = some.builds(Filters, some.lists(names, max_size=4, unique=True), objects, objects)


def plainly(body: dict[str, Any], filters: Filters) -> dict[str, Any]:
    kept = {name: value for name, value in body.items() if name not in filters.strip}
    missing = {n: v for n, v in filters.defaults.items() if kept.get(n) is None}
    return {**kept, **missing, **filters.set}


@given(objects, filters, some.booleans())
def test_a_body_is_filtered_as_one_would_by_hand(
    body: dict[str, Any], filters: Filters, ascii: bool
) -> None:
    text = json.dumps(body, ensure_ascii=ascii, indent=1).encode()

    fields, effects = _changed(text, filters)

    found = json.loads(b"".join(bytes(part) for part in _parts(fields)))
    assert found == plainly(body, filters)
    assert bool(effects) or found == body
    assert set(effects.stripped) == body.keys() & set(filters.strip)
    assert set(effects.set) <= filters.set.keys()


def test_a_body_too_deep_for_this_place_is_refused_and_breaks_nothing() -> None:
    deep = b'{"model":"a","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"

    with pytest.raises(Refused, match="too deeply"):
        _changed(deep, Filters(strip=["x"]))


def test_what_was_done_is_told_in_its_order_and_not_without_end() -> None:
    many = tuple(f"p{number}" for number in range(22))

    assert Effects(("a",), ("b", "c"), ("d",)).header() == b"stripped=a; defaulted=b,c; set=d"
    assert Effects(set=many).header() == f"set={','.join(many[:20])},+2".encode()
    assert Effects().header() == b""
