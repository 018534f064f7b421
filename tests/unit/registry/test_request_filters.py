"""What a preset may change in requests, and what counts of its bases' and aliases'."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from models_registry.request_filters import (
    RequestFilters,
    filter_errors,
    filters_of,
    strip_errors,
    values_errors,
)


def row(strip: str = "", defaults: Any = None, values: Any = None) -> Any:
    return SimpleNamespace(
        request_strip=strip, request_defaults=defaults or {}, request_set=values or {}
    )


@pytest.mark.parametrize("name", ["model", "stream"])
def test_what_the_client_alone_may_say_is_protected(name: str) -> None:
    assert strip_errors(f"top_k, {name}")
    assert values_errors({name: True})
    assert filter_errors(row(name, {name: 1}, {name: 1})).keys() == {
        "request_strip",
        "request_defaults",
        "request_set",
    }


@pytest.mark.parametrize(
    "values",
    [
        [],
        "temperature",
        None,
        {"": 1},
        {"a b": 1},
        {"a;b": 1},
        {"é": 1},
        {"x" * 65: 1},
        {"x": float("nan")},
        {"x": ["\ud800"]},
        {"x": {"\udfff": 1}},
        {"x": "y" * (16 << 10)},
        {f"x{number}": 1 for number in range(65)},
    ],
)
def test_what_is_no_object_of_parameters_is_refused(values: object) -> None:
    assert values_errors(values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"temperature": 0.7, "stop": ["</s>"], "chat_template_kwargs": {"enable_thinking": False}},
        {"top_k": None, "x-y.z": True},
    ],
)
def test_any_json_may_be_a_parameters_value(values: object) -> None:
    assert values_errors(values) == []


def test_what_cannot_be_sent_is_left_out_of_a_row_that_was_written_past_the_forms() -> None:
    bad = {"a": ["\ud800"], "b": float("inf"), "c": 1}

    filters = filters_of([row("", bad, bad)], {"by-name": bad})

    assert (filters.defaults, filters.set, filters.aliases["by-name"]) == ({"c": 1},) * 3


def test_of_each_value_the_nearest_counts_and_whatever_anyone_strips_is_stripped() -> None:
    far = row("a, b", {"t": 1, "u": 1}, {"v": 1, "w": 1})
    near = row("c\nb", {"t": 2}, {"w": 2})

    found = filters_of([far, near], {"x:slow": {"z": 1}, "x": {}})

    assert found == RequestFilters(
        ("a", "b", "c"), {"t": 2, "u": 1}, {"v": 1, "w": 2}, {"x:slow": {"z": 1}}
    )


def test_an_alias_sets_last_and_only_for_those_who_ask_by_it() -> None:
    filters = filters_of([row(values={"v": 1})], {"x:slow": {"v": 2, "z": 3}})

    assert filters.for_name("x:slow") == RequestFilters(set={"v": 2, "z": 3})
    assert filters.for_name("x") == RequestFilters(set={"v": 1})


def test_what_changes_nothing_is_none() -> None:
    assert filters_of([row()], {"x:slow": {"z": 3}}).for_name("x") is None


def test_rows_that_no_form_took_never_touch_what_is_protected() -> None:
    filters = filters_of([row("model", {"stream": True}, {"model": "b"})], {"x": {"model": "c"}})

    assert filters.for_name("x") is None
