"""Values that the engine was measured not to start with are refused where they are written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models_registry.errors import OptionError
from models_registry.options.option_values import checked_value
from models_registry.options.preset_options import combination_errors

from .known import CATALOGUE


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("threads", "5000"), ("threads-http", "-2"), ("prio", "-2"), ("prio-batch", "-1"),
        ("prio-batch", "4"), ("mirostat", "3"), ("n-cpu-moe", "-1"), ("repeat-penalty", "0"),
        ("batch-size", "1"), ("spec-draft-n-max", "-1"), ("spec-ngram-mod-n-max", "1025"),
        ("ctx-size", "1"), ("spec-ngram-simple-size-n", "0"), ("spec-ngram-map-k-min-hits", "0"),
        ("reasoning-budget", "-2"), ("repeat-last-n", "-1"), ("spec-type", "ngram"),
        ("spec-type", "none,x"), ("logit-bias", "x+1"), ("logit-bias", "15043"),
        ("override-kv", "a=b"), ("override-kv", "a=bool:1"), ("fit-target", "1,x"),
        ("fit-target", "-5"), ("json-schema", "[1]"), ("json-schema", "{"),
        ("grammar", "yes or no"), ("chat-template-kwargs", "abc"), ("spec-synth-rates", "abc"),
    ],
)  # fmt: skip
def test_what_the_engine_does_not_start_with_is_refused(key: str, value: str) -> None:
    with pytest.raises(OptionError, match="takes ") as refused:
        checked_value(CATALOGUE.option(key), value)
    assert repr(value) in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("threads", "-1"), ("prio", "-1"), ("prio", "3"), ("mirostat", "2"),
        ("ctx-size", "0"),
        ("repeat-penalty", "1.1"), ("n-cpu-moe", "48"), ("repeat-last-n", "0"),
        ("spec-type", "none,ngram-mod"), ("logit-bias", "15043-1.5"),
        ("logit-bias", "15043-inf"), ("fit-target", "1024, 512"),
        ("override-kv", "tokenizer.ggml.add_bos_token=bool:false,a.b=int:3"),
        ("override-kv", "a=str:x=y"), ("json-schema", '{"type": "object"}'),
        ("grammar", 'root ::= "yes" | "no"'),
        ("chat-template-kwargs", '{"enable_thinking": false}'), ("reasoning-budget", "-1"),
    ],
)  # fmt: skip
def test_what_it_starts_with_is_taken_as_it_is(key: str, value: str) -> None:
    assert checked_value(CATALOGUE.option(key), value) == value


def test_of_an_engine_whose_help_says_so_all_tokens_may_be_the_last_ones() -> None:
    option = replace(
        CATALOGUE.option("repeat-last-n"), help="(default: 64, 0 = disabled, -1 = ctx_size)"
    )
    assert checked_value(option, "-1") == "-1"


def test_a_batch_has_a_place_for_each_slot() -> None:
    assert combination_errors({"batch-size": "16", "parallel": "16"}) == {}
    found = combination_errors({"batch-size": "8", "parallel": "16"})
    assert "less than parallel, 16" in found["batch-size"].message
