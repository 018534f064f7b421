"""Which preset a name means, patterns and the default among the names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.names import Names, alias_problem
from models_registry.naming import LONGEST_NAME, name_problem

ALIASES = {
    "gpt*": "small",
    "gpt-4o*": "large",
    "gpt-4o": "exact",
    "gpt-4o-mini": "mini",
    "*": "fallback",
}
PRESETS = ("small", "large", "exact", "mini", "fallback", "gpt-oss")


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("small", "small"),
        ("gpt-oss", "gpt-oss"),  # a preset's own name, though a pattern fits
        ("gpt-4o", "exact"),
        ("gpt-4o-mini", "mini"),
        ("gpt-4o-2024-08-06", "large"),
        ("gpt-4", "small"),
        ("gpt", "small"),
        ("gp", "fallback"),
        ("GPT-4o", "fallback"),
        ("", "fallback"),
        ("gpt-4o*", "large"),
    ],
)
def test_the_exact_name_wins_and_then_the_longest_beginning(name, preset):
    names = Names(PRESETS, ALIASES)

    assert names.preset(names.meant(name)) == preset


def test_without_a_default_a_name_that_nobody_has_leads_nowhere():
    names = Names(["a"], {"b*": "a"})

    assert [names.preset(names.meant(name)) for name in ("c", "")] == [None, None]


@pytest.mark.parametrize(
    ("name", "own", "meant"),
    [
        ("gpt-oss", {"exact": "mini"}, "mini"),
        ("gpt-oss", {"wildcard": "mini"}, "gpt-oss"),
        ("gpt-4o", {"wildcard": "mini"}, "gpt-4o"),
        ("gpt-4o-x", {"wildcard": "mini"}, "mini"),
        ("gpt-4o-x", {"default": "mini"}, "gpt-4o*"),
        ("other", {"default": "mini"}, "mini"),
        ("", {"default": "mini"}, "mini"),
        ("other", {"exact": "gone"}, "gone"),
    ],
)
def test_the_callers_own_go_before_everybodys_of_their_kind(name, own, meant):
    assert Names(PRESETS, ALIASES).meant(name, **own) == meant


def test_neither_a_pattern_nor_the_default_answers_for_what_is_being_fetched():
    names = Names(PRESETS, ALIASES, coming={"gpt-new", "new"})

    assert [names.preset(names.meant(name)) for name in ("gpt-new", "new")] == [None, None]
    assert names.meant("new", exact="small") == "small"


@given(st.text("ab", max_size=6), st.sets(st.text("ab", min_size=1, max_size=4), max_size=6))
def test_of_all_patterns_that_fit_the_longest_is_taken(name, beginnings):
    names = Names(["p"], {f"{each}*": "p" for each in beginnings})

    fitting = sorted((each for each in beginnings if name.startswith(each)), key=len)
    assert names.meant(name) == (f"{fitting[-1]}*" if fitting else name)


@pytest.mark.parametrize("name", ["*", "gpt-4o*", "user/*", "user/repo:*", "a *", "a/load*", "ab"])
def test_a_pattern_is_the_beginning_of_a_name_and_a_star(name):
    assert alias_problem(name) == ""


@pytest.mark.parametrize(
    "name", ["", "**", "a*b", "a*b*", "*a", "a,*", "[*", "../*", "a" * LONGEST_NAME + "*", "-*"]
)
def test_anything_else_with_a_star_is_none(name):
    assert alias_problem(name)


@given(st.text(max_size=30))
def test_without_a_star_an_alias_is_a_name_like_any_other(name):
    if "*" not in name:
        assert alias_problem(name) == name_problem(name)


def test_a_name_and_the_same_with_the_tag_latest_are_one_before_any_pattern():
    names = Names(["alpha", "beta:latest", "gamma:7b"], {"first": "alpha", "al*": "gamma:7b"})

    assert names.meant("alpha:latest") == "alpha"
    assert names.meant("first:latest") == "first"
    assert names.meant("beta") == "beta:latest"
    assert names.meant("gamma") == "gamma"
    assert names.meant("gamma:latest") == "gamma:latest"
    assert names.meant("alto:latest") == "al*"


def test_of_two_that_differ_in_the_tag_latest_only_each_is_itself():
    names = Names(["alpha", "alpha:latest"])

    assert names.meant("alpha") == "alpha"
    assert names.meant("alpha:latest") == "alpha:latest"


@pytest.mark.parametrize(
    ("asked", "preset"),
    [
        ("hf.co/team/m:Q8_0", "team/m:Q8_0"),
        ("huggingface.co/team/m:q8_0", "team/m:Q8_0"),
        ("team/m:q8_0", "team/m:Q8_0"),
        ("registry.ollama.ai/library/tiny:1b", "tiny:1b"),
        ("registry.ollama.ai/library/tiny", "tiny:latest"),
        ("registry.ollama.ai/someone/tiny:latest", "someone/tiny"),
        ("hf.co/kept/as:it-is", "hf.co/kept/as:it-is"),
        ("tiny:1B", "tiny:1B"),
        ("hf.co/", "hf.co/"),
    ],
)
def test_what_clients_of_ollama_write_around_a_name_is_looked_through(
    asked: str, preset: str
) -> None:
    there = ["team/m:Q8_0", "tiny:1b", "tiny:latest", "someone/tiny", "hf.co/kept/as:it-is"]

    assert Names(there).meant(asked) == preset
