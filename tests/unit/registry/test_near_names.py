"""What a client that wrote a name wrong is told."""

from __future__ import annotations

import pytest

from models_registry.near_names import MOST, near_names
from scheduler.runtime.refusals import model_not_found

KNOWN = [
    "qwen3:8b",
    "smollm2",
    "smollm2-long",
    "bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M",
    "nomic-embed-text",
]


@pytest.mark.parametrize(
    ("wanted", "nearest"),
    [
        ("smolm2", "smollm2"),
        ("SmolLM2", "smollm2"),
        ("smollm2-lon", "smollm2-long"),
        ("qwen3", "qwen3:8b"),
        ("Llama-3.2-1B-Instruct-GGUF", "bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M"),
        ("nomic-embed", "nomic-embed-text"),
    ],
)
def test_the_nearest_name_comes_first(wanted, nearest):
    assert near_names(wanted, KNOWN)[0] == f"'{nearest}'"


@pytest.mark.parametrize("wanted", ["gpt-4o", "x", "", "z" * 200])
def test_nothing_is_near_to_what_is_like_none(wanted):
    assert near_names(wanted, KNOWN) == []


def test_no_more_than_a_few_are_told():
    assert len(near_names("model-1", [f"model-1{number}" for number in range(9)])) == MOST


def test_the_refusal_says_what_may_have_been_meant():
    assert "did you mean 'smollm2'" in model_not_found("smolm2", KNOWN).message


def test_what_is_like_none_is_told_some_that_there_are():
    assert "there is 'qwen3:8b'" in model_not_found("gpt-4o", KNOWN).message


def test_who_has_an_alias_that_leads_nowhere_is_told_where_it_leads():
    told = model_not_found("gpt-4o", KNOWN, leads_to="smollm3").message

    assert "'gpt-4o' stands for 'smollm3'" in told
    assert "did you mean 'smollm2'" in told
