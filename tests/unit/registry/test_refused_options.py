"""Every option of the engine is either harmless, by name, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from models_registry.options.catalogue import Option, parse_help
from models_registry.options.refused_options import REFUSED, Reason, refusal, refusal_message

from .known import CATALOGUE

ALLOWED = set(Path(__file__).with_name("allowed-0.3.36.txt").read_text().split())

MENTIONS_FILES_HARMLESSLY = {
    "lazy-mode": "reads tensors of the model's own file",
    "override-tensor": "its placeholder holds no file",
    "mmproj-auto": "whether the projector that is set is used",
    "grammar": "its help points to samples of grammars",
}


def test_every_option_of_the_help_is_sorted_into_allowed_or_refused() -> None:
    allowed = {option.key for option in CATALOGUE.options if refusal(option) is None}

    assert allowed == ALLOWED


def _looks_like_a_file_or_an_address(option: Option) -> bool:
    by_hint = re.search(r"PATH|FILE|FNAME|DIR|URL|SERVER|HOST|repo", option.hint)
    words = r"\bfiles?\b|\bdirectory\b|\bdir\b|\bdownload|\bURL\b"
    return bool(by_hint or re.search(words, option.help, re.IGNORECASE))


@pytest.mark.parametrize("option", CATALOGUE.options, ids=lambda option: option.key)
def test_an_option_that_names_files_or_addresses_is_refused_or_known_to_be_harmless(
    option: Option,
) -> None:
    if _looks_like_a_file_or_an_address(option):
        assert refusal(option) is not None or option.key in MENTIONS_FILES_HARMLESSLY


def test_each_name_in_the_list_is_an_option_of_this_engine() -> None:
    assert [name for name in REFUSED if CATALOGUE.find(name) is None] == []


@pytest.mark.parametrize(
    "header",
    [
        "--new-weights FNAME",
        "--scratch PATH",
        "--plugins-dir DIR",
        "--fetch-url URL",
        "--ssl-ciphers LIST",
        "--mcp-anything",
        "--tools-sandbox NAME",
        "--models-memory-margin N",
        "--hf-endpoint NAME",
        "--cors-max-age N",
        "--range-of-things START END",
    ],
)
def test_a_later_engines_option_of_a_dangerous_kind_is_refused_unseen(header: str) -> None:
    (option,) = parse_help(f"{header:<60}\n{'':40}what it does\n").options

    assert refusal(option) is not None


def test_a_refusal_says_why_and_what_to_do() -> None:
    host = refusal_message(CATALOGUE.option("host"))
    alias = refusal_message(CATALOGUE.option("alias"))

    assert host.startswith("refused because it would let the child listen elsewhere")
    assert alias.startswith("refused because it is set by Corral: add the name under Aliases")
    assert "fetch it under Downloads" in refusal_message(CATALOGUE.option("hf-repo"))
    assert "HF_TOKEN" in refusal_message(CATALOGUE.option("hf-token"))
    assert refusal_message(CATALOGUE.option("ctx-size")) == ""


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("tools", Reason.TOOLS),
        ("chat-template-file", Reason.FILES),
        ("rpc", Reason.NETWORK),
        ("models-dir", Reason.ROUTER),
        ("version", Reason.EXITS),
        ("fim-qwen-3b-default", Reason.NETWORK),
    ],
)
def test_the_reason_fits_the_option(key: str, reason: Reason) -> None:
    assert refusal(CATALOGUE.option(key)) is reason
