"""What is read from the engine's help."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.options.catalogue import Kind, parse_help

from .known import CATALOGUE, HELP


def test_every_option_of_the_help_is_in_the_catalogue() -> None:
    headers = [
        line for line in HELP.splitlines() if line.startswith("-") and not line.startswith("-----")
    ]

    assert len(CATALOGUE.options) == len(headers) == 255


def test_no_spelling_means_two_options() -> None:
    for option in CATALOGUE.options:
        for name in option.names:
            match = CATALOGUE.find(name)
            assert match is not None
            assert match.option is option, name


def test_every_environment_name_of_the_help_is_known() -> None:
    for name in re.findall(r"\(env: (\w+)\)", HELP):
        assert CATALOGUE.find(name) is not None, name


@pytest.mark.parametrize(
    ("spelling", "key"),
    [
        ("c", "ctx-size"),
        ("-c", "ctx-size"),
        ("ctx-size", "ctx-size"),
        ("--ctx_size", "ctx-size"),
        ("LLAMA_ARG_CTX_SIZE", "ctx-size"),
        ("ngl", "n-gpu-layers"),
        ("gpu-layers", "n-gpu-layers"),
        ("np", "parallel"),
        ("n", "n-predict"),
        ("embedding", "embeddings"),
        ("md", "model-draft"),
        ("fim-qwen-1.5b-default", "fim-qwen-1.5b-default"),
    ],
)
def test_each_spelling_leads_to_the_key_that_the_engine_renders(spelling: str, key: str) -> None:
    match = CATALOGUE.find(spelling)

    assert match is not None
    assert (match.option.key, match.negated) == (key, False)


@pytest.mark.parametrize(
    ("spelling", "key"),
    [
        ("no-kv-offload", "kv-offload"),
        ("nkvo", "kv-offload"),
        ("nocb", "cont-batching"),
        ("no-warmup", "warmup"),
        ("no-mmproj", "mmproj-auto"),
        ("LLAMA_ARG_NO_KV_OFFLOAD", "kv-offload"),
    ],
)
def test_a_negated_spelling_is_the_opposite_of_its_option(spelling: str, key: str) -> None:
    match = CATALOGUE.find(spelling)

    assert match is not None
    assert (match.option.key, match.negated) == (key, True)


@pytest.mark.parametrize("spelling", ["no-host", "LLAMA_ARG_NO_HOST"])
def test_an_option_whose_only_name_begins_with_no_is_not_a_negation(spelling: str) -> None:
    match = CATALOGUE.find(spelling)

    assert match is not None
    assert (match.option.key, match.negated) == ("no-host", False)


@pytest.mark.parametrize(
    ("key", "kind", "choices"),
    [
        ("ctx-size", Kind.INT, ()),
        ("n-gpu-layers", Kind.INT, ("auto", "all")),
        ("temperature", Kind.FLOAT, ()),
        ("rope-freq-base", Kind.FLOAT, ()),
        ("n-cpu-moe", Kind.INT, ()),
        ("poll", Kind.INT, ()),
        ("cpu-strict", Kind.CHOICE, ("0", "1")),
        ("flash-attn", Kind.CHOICE, ("on", "off", "auto")),
        ("split-mode", Kind.CHOICE, ("none", "layer", "row", "tensor")),
        ("load-mode", Kind.CHOICE, ("auto", "none", "mmap", "mlock", "mmap+mlock", "dio")),
        ("reasoning-format", Kind.CHOICE, ("none", "deepseek", "deepseek-legacy", "auto")),
        ("warmup", Kind.FLAG, ()),
        ("chat-template", Kind.TEXT, ()),
        ("control-vector-layer-range", Kind.PAIR, ()),
    ],
)
def test_the_placeholder_and_the_text_tell_what_an_option_takes(
    key: str, kind: Kind, choices: tuple[str, ...]
) -> None:
    option = CATALOGUE.option(key)

    assert (option.kind, option.choices) == (kind, choices)


def test_removed_options_are_marked() -> None:
    removed = [option.key for option in CATALOGUE.options if option.removed]

    assert "draft-max" in removed
    assert len(removed) == 5


def test_a_near_miss_is_suggested() -> None:
    assert CATALOGUE.suggestion("ctx-sze", CATALOGUE.options) == "ctx-size"
    assert CATALOGUE.suggestion("completely-else-where", []) == ""


def test_a_help_that_says_something_else_gives_no_options() -> None:
    assert parse_help("usage: something else\n  no options here\n").options == ()


@pytest.mark.parametrize(
    "line", ["- a bullet at the left margin", "-", "--", "---", "----, --x", "-,"]
)
def test_a_line_that_only_looks_like_an_option_is_skipped(line: str) -> None:
    text = f"--first N  one\n{line}\n--second N  two\n"

    assert [option.key for option in parse_help(text).options] == ["first", "second"]


_PIECES = st.sampled_from(
    ["-", "--", "--no-", "-c", "--ctx-size", ", ", " ", " " * 40, "N", "<0...100>", "[a|b]",
     "(env: X)", "(default: ", "allowed values: ", "START END", "TYPE", "\n", "\x0c", "\u2028", "é"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(_PIECES).map("".join)))
def test_no_text_breaks_the_reader(text: str) -> None:
    for option in parse_help(text).options:
        assert option.key


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("ctx-size", "0"),
        ("ubatch-size", "512"),
        ("cache-type-k", "f16"),
        ("flash-attn", "auto"),
        ("n-gpu-layers", "auto"),
        ("cpu-mask", ""),
        ("lora", ""),
    ],
)
def test_an_options_default_is_what_the_help_says(key, default):
    assert CATALOGUE.option(key).default == default


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("ctx-size", "0"),
        ("top-k", "40"),
        ("temperature", "0.80"),
        ("flash-attn", "auto"),
        ("kv-offload", "enabled"),
        ("fit-target", "1024"),
        ("threads-batch", "same as --threads"),
        ("sleep-idle-seconds", "-1"),
        ("samplers", "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"),
        ("numa", ""),
    ],
)
def test_what_counts_unless_it_is_set_is_in_the_help(key: str, default: str) -> None:
    assert CATALOGUE.option(key).default == default


@pytest.mark.parametrize(
    ("key", "section"),
    [
        ("ctx-size", "common"),
        ("cache-type-v-draft", "common"),
        ("samplers", "sampling"),
        ("backend-sampling", "sampling"),
        ("spec-type", "speculative"),
        ("parallel", "server"),
        ("spec-default", "server"),
    ],
)
def test_an_option_stands_in_the_section_of_the_help(key: str, section: str) -> None:
    assert CATALOGUE.option(key).section == section
