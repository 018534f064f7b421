"""Which names clients may write, and how files get theirs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.naming import (
    LONGEST_NAME,
    file_stem,
    name_problem,
    quantisation,
    shard_names,
    shard_of,
    shards_problem,
    unique_name,
    valid_name,
)


@pytest.mark.parametrize(
    "name",
    [
        "smollm2",
        "user/repo:Q4_K_M",
        "org/sub/model",
        "Qwen2.5-7B-Instruct",
        "gpt-4o@2024-05",
        "a+b",
        "My Model",
        "7b",
        "_hidden",
        "a" * LONGEST_NAME,
    ],
)
def test_a_usual_name_passes(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "*",
        "-x",
        "--model",
        ".x",
        "..",
        "a/..",
        "../a",
        "a/../b",
        "a/./b",
        "a//b",
        "/a",
        "a/",
        "a/ /b",
        "a\\b",
        "a,b",
        "a*",
        "a\nb",
        "a\n",
        "a\0b",
        "a\tb",
        "a\x7fb",
        " a",
        "a ",
        "a  b",
        "[a]",
        "a;b",
        "a#b",
        "a=b",
        "a?b",
        "a&b",
        "a%2fb",
        "<img src=x>",
        'a"b',
        "a'b",
        "\u0430bc",
        "\uff41",
        "a\u202eb",
        "a" * (LONGEST_NAME + 1),
    ],
)
def test_a_name_that_means_something_somewhere_else_is_refused(name: str) -> None:
    assert name_problem(name) != ""


@given(st.text())
def test_every_text_becomes_a_valid_name_and_stays_it(text: str) -> None:
    name = valid_name(text)

    assert name_problem(name) == ""
    assert valid_name(name) == name


def test_a_valid_name_is_left_as_it_is() -> None:
    assert valid_name("user/repo:Q4_K_M") == "user/repo:Q4_K_M"
    assert valid_name("weird, name (1)") == "weird- name -1"


def test_a_taken_name_gets_a_number_within_the_longest_length() -> None:
    longest = "a" * LONGEST_NAME

    assert unique_name("a", {"a", "a-2"}) == "a-3"
    assert unique_name(longest, {longest}) == "a" * (LONGEST_NAME - 2) + "-2"


def test_a_file_is_named_without_every_gguf_and_without_its_shard() -> None:
    assert file_stem("weird.gguf.gguf") == "weird"
    assert file_stem("big-00001-of-00003.gguf") == "big"


def test_a_sharded_model_is_all_its_files() -> None:
    assert shard_names("big-00001-of-00002.gguf") == (
        "big-00001-of-00002.gguf",
        "big-00002-of-00002.gguf",
    )
    assert shard_names("small.gguf") == ("small.gguf",)


@pytest.mark.parametrize(
    ("stem", "tag"),
    [
        ("gemma-3-4b-it-Q4_K_M", "Q4_K_M"),
        ("model-UD-Q4_K_XL", "Q4_K_XL"),
        ("stories260K-f32", "F32"),
        ("plain", ""),
    ],
)
def test_the_tag_is_the_last_word(stem: str, tag: str) -> None:
    assert quantisation(stem) == tag


@pytest.mark.parametrize("name", ["x-00002-of-00000.gguf", "x-00000-of-00002.gguf"])
def test_a_number_beyond_its_count_is_no_shard(name: str) -> None:
    assert shard_of(name) is None
    assert shard_names(name) == (name,)


def test_a_name_that_claims_more_shards_than_any_model_has_stands_alone() -> None:
    name = "big-00001-of-99999.gguf"

    assert "99999 shards" in shards_problem(name)
    assert shard_names(name) == (name,)
    assert shards_problem("big-00001-of-01000.gguf") == ""
