"""Whose slot it is, by what answers have stated."""

from __future__ import annotations

import pytest

from scheduler.runtime.kv_saves.writers import Writers


@pytest.mark.parametrize(
    ("stated", "slots", "writers"),
    [
        ([("x", 100), ("y", 200)], [199, 99], ["y", "x"]),
        ([("x", 100), ("y", 100), ("x", 120)], [119, 99], ["x", "y"]),
        ([("x", 100), ("y", 100)], [99, 99], ["y", "x"]),
        ([("x", 100)], [300], [""]),
        ([], [], []),
    ],
    ids=["by tokens", "the later of two", "each once", "nobody's", "no slot"],
)
def test_a_slots_writer_is_who_stated_its_tokens_last(stated, slots, writers):
    known = Writers({"x", "y"})
    for tenant, tokens in stated:
        known.stated(tenant, tokens)

    assert known.of(slots) == writers


def test_where_one_tenant_was_given_the_instance_all_is_its():
    known = Writers()
    known.given("x")

    assert known.is_one
    assert known.of([100, 200]) == ["x", "x"]
    known.given("y")
    assert not known.is_one
