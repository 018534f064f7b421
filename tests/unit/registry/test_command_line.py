"""Layers of options to arguments, and arguments back to options."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.errors import OptionError
from models_registry.options.catalogue import Kind
from models_registry.options.command_line import (
    EffectiveOption,
    Layer,
    effective,
    parse_overlay,
    render,
)
from models_registry.options.option_limits import FORMS, JSON
from models_registry.options.refused_options import refusal

from .known import CATALOGUE

SHAPED = (*FORMS, *JSON, "spec-type")
TEXT_KEYS = [
    option.key
    for option in CATALOGUE.options
    if option.kind is Kind.TEXT and refusal(option) is None and option.key not in SHAPED
]
SWITCHES = [
    option.key
    for option in CATALOGUE.options
    if option.kind is Kind.FLAG and option.negations and refusal(option) is None
]
printable = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))


def options(
    *,
    environment: Mapping[str, str] | None = None,
    preset: Mapping[str, str] | None = None,
    command_line: Mapping[str, str] | None = None,
) -> dict[str, EffectiveOption]:
    found = effective(
        environment=environment or {},
        model_file={"model": "/models/a.gguf"},
        preset=preset or {},
        command_line=command_line or {},
        catalogue=CATALOGUE,
    )
    return {option.key: option for option in found}


def test_the_highest_layer_that_names_an_option_sets_it() -> None:
    found = options(
        environment={"LLAMA_ARG_CTX_SIZE": "16", "LLAMA_ARG_THREADS": "2", "LLAMA_ARG_BATCH": "3"},
        preset={"ctx-size": "4", "threads": "5"},
        command_line={"ctx-size": "6"},
    )

    assert found["ctx-size"] == EffectiveOption("ctx-size", "6", Layer.COMMAND_LINE)
    assert found["threads"] == EffectiveOption("threads", "5", Layer.PRESET)
    assert found["batch-size"] == EffectiveOption("batch-size", "3", Layer.ENVIRONMENT)
    assert found["model"] == EffectiveOption("model", "/models/a.gguf", Layer.MODEL_FILE)


def test_corrals_own_variables_in_the_environment_reach_no_child() -> None:
    found = options(
        environment={
            "LLAMA_ARG_HOST": "0.0.0.0",
            "LLAMA_API_KEY": "secret",
            "LLAMA_ARG_MODEL": "/etc/passwd",
            "LLAMA_ARG_MODELS_DIR": "/models",
            "PATH": "/bin",
        }
    )

    assert set(found) == {"model", "parallel", "kv-unified"}
    assert found["model"].value == "/models/a.gguf"


def test_a_negated_variable_counts_as_set_whatever_it_holds() -> None:
    found = options(environment={"LLAMA_ARG_NO_KV_OFFLOAD": "0"})

    assert found["kv-offload"].value == "false"


def test_a_bad_value_in_the_environment_is_named_by_its_variable() -> None:
    with pytest.raises(OptionError) as caught:
        options(environment={"LLAMA_ARG_CTX_SIZE": "many"})

    assert caught.value.option == "LLAMA_ARG_CTX_SIZE"


@pytest.mark.parametrize("asked", [{}, {"parallel": "-1"}])
def test_slots_that_nobody_counts_become_four_on_one_buffer(asked: dict[str, str]) -> None:
    found = options(preset=asked)

    assert (found["parallel"].value, found["kv-unified"].value) == ("4", "true")


def test_counted_slots_keep_the_engines_own_buffers() -> None:
    found = options(preset={"parallel": "2"})

    assert found["parallel"].value == "2"
    assert "kv-unified" not in found


@pytest.mark.parametrize("asked", ["0", "-2", "257", "2147483647"])
def test_a_number_of_slots_that_nobody_means_is_refused(asked: str) -> None:
    with pytest.raises(OptionError, match="from 1 to 256"):
        options(command_line={"parallel": asked})


def test_a_range_in_the_help_is_kept() -> None:
    assert options(preset={"poll": "100"})["poll"].value == "100"

    with pytest.raises(OptionError, match="from 0 to 100"):
        options(preset={"poll": "101"})


@pytest.mark.parametrize("layer", ["preset", "command_line"])
@pytest.mark.parametrize("key", ["model", "mmproj", "host", "alias"])
def test_no_layer_but_the_model_files_names_files(layer: str, key: str) -> None:
    with pytest.raises(OptionError, match="refused because"):
        options(**{layer: {key: "/etc/passwd"}})


def test_arguments_are_a_list_in_the_engines_own_spelling() -> None:
    found = options(
        preset={"ngl": "all", "no-warmup": "true", "embeddings": "true", "fa": "1"},
        command_line={"parallel": "2"},
    )

    assert render(list(found.values()), CATALOGUE) == (
        "--model",
        "/models/a.gguf",
        "--embeddings",
        "--flash-attn",
        "on",
        "--n-gpu-layers",
        "all",
        "--parallel",
        "2",
        "--no-warmup",
    )


def test_switching_off_what_has_no_negation_leaves_it_out() -> None:
    found = options(
        environment={"LLAMA_ARG_EMBEDDINGS": "true"},
        preset={"embeddings": "false", "parallel": "1"},
    )

    assert render(list(found.values()), CATALOGUE) == (
        "--model",
        "/models/a.gguf",
        "--parallel",
        "1",
    )


@given(key=st.sampled_from(TEXT_KEYS), value=printable)
def test_any_text_is_one_argument_and_comes_back(key: str, value: str) -> None:
    argv = render([EffectiveOption(key, value, Layer.PRESET)], CATALOGUE)

    assert len(argv) == 2
    assert argv[1] == value
    assert parse_overlay(argv, CATALOGUE) == {key: value}


@given(key=st.sampled_from(TEXT_KEYS), value=printable)
def test_any_text_comes_back_from_behind_an_equals_sign(key: str, value: str) -> None:
    assert parse_overlay([f"--{key}={value}"], CATALOGUE) == {key: value}


@given(key=st.sampled_from(SWITCHES), on=st.booleans())
def test_a_switch_comes_back_on_or_off(key: str, on: bool) -> None:
    value = "true" if on else "false"

    argv = render([EffectiveOption(key, value, Layer.PRESET)], CATALOGUE)

    assert parse_overlay(argv, CATALOGUE) == {key: value}


@given(value=st.text(min_size=1))
def test_no_text_becomes_a_number_by_accident(value: str) -> None:
    try:
        number = int(parse_overlay(["--ctx-size", value], CATALOGUE)["ctx-size"])
    except OptionError:
        return
    assert value.strip().lstrip("+-").lstrip("0") in (str(abs(number)), "")
    assert value.isascii()


@pytest.mark.parametrize("character", ["\n", "\r", "\0", "\x1b", "\x7f", "\ud800"])
def test_control_characters_and_broken_text_are_refused(character: str) -> None:
    option = EffectiveOption("chat-template", f"a{character}b", Layer.PRESET)

    with pytest.raises(OptionError):
        render([option], CATALOGUE)


def test_a_megabyte_is_refused() -> None:
    with pytest.raises(OptionError, match="longer than"):
        parse_overlay(["--grammar", "x" * (1 << 20)], CATALOGUE)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["-c", "4096", "-ngl", "99"], {"ctx-size": "4096", "n-gpu-layers": "99"}),
        (["--ctx_size", "4096"], {"ctx-size": "4096"}),
        (["--ctx-size=4096"], {"ctx-size": "4096"}),
        (["--no-warmup"], {"warmup": "false"}),
        (["-nocb", "--metrics"], {"cont-batching": "false", "metrics": "true"}),
        (["--warmup=off"], {"warmup": "false"}),
        (["--no-warmup=false"], {"warmup": "true"}),
        (["--seed", "-1"], {"seed": "-1"}),
        (["--seed", "4294967295"], {"seed": "4294967295"}),
        (["-c", "16", "-c", "2"], {"ctx-size": "2"}),
        (["-fa", "ON"], {"flash-attn": "on"}),
        (
            ["-ot", r"blk\.[01]=CPU,a b=RPC0[h:1]"],
            {"override-tensor": r"blk\.[01]=CPU,a b=RPC0[h:1]"},
        ),
        (["--override-kv", "a.b=int:1"], {"override-kv": "a.b=int:1"}),
        ([], {}),
    ],
)
def test_a_command_line_is_read_as_the_engine_reads_it(
    tokens: list[str], expected: dict[str, str]
) -> None:
    assert parse_overlay(tokens, CATALOGUE) == expected


@pytest.mark.parametrize(
    ("tokens", "option", "words"),
    [
        (["--ctx-sze", "1"], "--ctx-sze", "did you mean ctx-size"),
        (["--host", "0.0.0.0"], "--host", "refused because it would let the child listen"),
        (["-hf", "a/b"], "-hf", "refused because it would let the child use the network"),
        (["--no-slots"], "--no-slots", "set by Corral"),
        (["-c"], "-c", "needs a value"),
        (["-c", "--metrics"], "-c", "takes a whole number"),
        (["-c", "\uff14"], "-c", "takes a whole number"),
        (["-c", "99999999999"], "-c", "takes a whole number"),
        (["--temp", "nan"], "--temp", "takes a number"),
        (["-ctk", "f17"], "-ctk", "takes one of f32"),
        (["--warmup=maybe"], "--warmup", "write true or false"),
        (["--spec-ngram-min-hits", "3"], "--spec-ngram-min-hits", "has been removed"),
        (["--stop-timeout", "3"], "--stop-timeout", "Stop timeout"),
        (["-ub", "0"], "-ub", "takes a whole number from 1"),
        (["-b", "-5"], "-b", "takes a whole number from 2"),
        (["-ot", "blk"], "-ot", "takes patterns of tensors"),
        (["-ot", "blk="], "-ot", "takes patterns of tensors"),
        (["-ot", "a=CPU,,b=CPU"], "-ot", "takes patterns of tensors"),
        (["-otd", "blk"], "-otd", "takes patterns of tensors"),
        (["-ot", "a=CPU,((b=CPU"], "-ot", r"'\(\(b' is no regular expression: missing \)"),
        (["-ot", "(" * 9000 + ")" * 9000 + "=CPU"], "-ot", "is no regular expression"),
        (["-ot", "a{99999999999}=CPU"], "-ot", "is no regular expression"),
        (["serve"], "serve", "not an option"),
        (["--"], "--", "not an option"),
    ],
)
def test_what_the_engine_would_not_take_is_named(
    tokens: list[str], option: str, words: str
) -> None:
    with pytest.raises(OptionError, match=words) as caught:
        parse_overlay(tokens, CATALOGUE)

    assert caught.value.option == option
