"""What is taken out of prompts and answers before they are stored."""

from __future__ import annotations

import json

import pytest

from proxy.content.redacting import REDACTED, patterns_in, redactor
from proxy.content.texts import text_in

SECRETS = [
    "ck_abcdefgh_" + "x" * 43,
    "sk-proj-abcdefghijklmnopqrstuvwxyz",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "hf_abcdefghijklmnopqrstuvwxyz",
    "xoxb-123456789012-abcdefghijkl",
    "AKIAABCDEFGHIJKLMNOP",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdef",
    "Bearer abcdef0123456789",
    "ann.example+tag@mail.example.org",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("around", ["{}", 'he said "{}"', "ü {}"])
def test_a_secret_is_taken_out(secret, around):
    assert redactor()(around.format(secret)) == around.format(REDACTED)


def test_of_a_private_key_whose_end_is_missing_nothing_stays():
    assert redactor()("see -----BEGIN PRIVATE KEY-----\nMIIE and") == f"see {REDACTED}"


@pytest.mark.parametrize(
    "text", ["", "a risk-free task-force", "3 @ 4", "the bearer of news", "ck_short", "ünïcode 😀"]
)
def test_what_is_no_secret_stays(text):
    assert redactor()(text) == text


def test_own_patterns_are_taken_out_beside_the_others():
    redact = redactor(patterns_in("  CASE-[0-9]+ \n\n(?i)project x\n"))

    assert redact("CASE-12 of Project X by a@b.org") == " of ".join([REDACTED] * 2) + (
        f" by {REDACTED}"
    )


@pytest.mark.parametrize("bad", ["(", "a*", r"(a)\1", "(?=x)", "x|"])
def test_a_pattern_that_is_none_or_matches_nothing_is_refused(bad):
    with pytest.raises(ValueError, match=r"RE2|matches where nothing is"):
        patterns_in(bad)


def test_no_pattern_and_no_text_takes_long():
    """Where others would try for years."""
    redact = redactor(patterns_in("(a+)+b"))

    assert redact("a" * 100_000 + "c") == "a" * 100_000 + "c"


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def test_a_secret_that_was_told_in_pieces_is_whole_again():
    pieces = [event(choices=[{"delta": {"content": part}}]) for part in ("ann@", "mail.", "org")]

    assert text_in(b"".join(pieces), is_stream=True) == "ann@mail.org"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}, "Hi"),
        ({"choices": [{"text": "Hi"}], "model": "tiny"}, "Hi"),
        ({"content": "Hi", "tokens": [1], "prompt": "no"}, "Hi"),
        ({"content": [{"type": "text", "text": "Hi"}], "usage": {}}, "Hi"),
        ({"output": [{"content": [{"type": "output_text", "text": "Hi"}]}]}, "Hi"),
        ({"error": "odd"}, '{"error": "odd"}'),
        ([[[[[[[[[["deep"]]]]]]]]]], '[[[[[[[[[["deep"]]]]]]]]]]'),
    ],
)
def test_the_text_of_an_answer_is_found_in_every_dialect(answer, text):
    assert text_in(json.dumps(answer).encode(), is_stream=False) == text


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([{"type": "content_block_delta", "delta": {"text": "Hi"}}], "Hi"),
        (
            [
                {"type": "response.output_text.delta", "delta": "Hi"},
                {"type": "response.completed", "response": {"output": [{"text": "Hi"}]}},
            ],
            "Hi",
        ),
        ([{"content": "H"}, {"content": "i", "stop": True}], "Hi"),
    ],
)
def test_the_text_of_a_stream_is_found_in_every_dialect(events, text):
    told = b"".join(event(**each) for each in events) + b"data: [DONE]\n\n"

    assert text_in(told, is_stream=True) == text
