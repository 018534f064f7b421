"""Where the aliases of a key and of its team lead."""

from __future__ import annotations

import pytest

from proxy.own_names import own_names
from scheduler.protocol import NO_OWN_NAMES, OwnNames

KEYS = {"gpt-4o": "a", "gpt*": "b"}
TEAMS = {"gpt-4o": "c", "gpt-4*": "d", "claude": "e", "*": "f"}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gpt-4o", OwnNames(exact="a")),
        ("claude", OwnNames(exact="e")),
        ("gpt-4", OwnNames(wildcard="b", default="f")),  # the key's, however short
        ("llama", OwnNames(default="f")),
        ("", OwnNames(default="f")),
    ],
)
def test_the_keys_go_before_the_teams(name, found):
    assert own_names(name, (KEYS, TEAMS)) == found


def test_of_one_kind_the_longest_beginning_counts():
    assert own_names("gpt-4o-mini", ({"gpt*": "a", "gpt-4o*": "b"},)) == OwnNames(wildcard="b")


def test_who_has_none_asks_as_everybody_does():
    assert own_names("gpt-4o", ({}, {})) is NO_OWN_NAMES


def test_the_tag_latest_makes_no_other_name_of_it():
    own = [{"helper": "beta", "coder:latest": "gamma"}]

    assert own_names("helper:latest", own) == OwnNames(exact="beta")
    assert own_names("coder", own) == OwnNames(exact="gamma")
    assert own_names("coder:7b", own) == NO_OWN_NAMES
