"""What no line of a log holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_registry.log_redaction import Redaction, harmless_lines, harmless_text

KEY = "ck_abcdefgh_" + "S3cret-" * 6
TEXTS = [
    (f"GET /{KEY}/v1/models failed", "GET /ck_abcdefgh_[redacted]/v1/models failed"),
    (f"ck_{'x' * 30} is no key", "[redacted] is no key"),
    ("Authorization: Bearer S3cret-S3cret", "Authorization: Bearer [redacted]"),
    ("authorization=S3cret", "authorization=[redacted]"),
    (
        "[(b'authorization', b'Bearer S3cret'), (b'x-api-key', b'S3cret')]",
        "[(b'authorization', b'Bearer [redacted]'), (b'x-api-key', b'[redacted]')]",
    ),
    ('{"Authorization": "Basic S3cretS3cret=="}', '{"Authorization": "Basic [redacted]"}'),
    ("Cookie: sessionid=S3cret; csrftoken=S3cret", "Cookie: [redacted]"),
    ("sessionid=S3cret; path", "sessionid=[redacted]; path"),
    ("X-Api-Key: S3cret", "X-Api-Key: [redacted]"),
    ("token hf_S3cretS3cretS3cret1", "token hf_[redacted]"),
    ("sk-proj-S3cretS3cretS3cret", "sk-[redacted]"),
    ("postgres://corral:S3cret@db/corral", "postgres://corral:[redacted]@db/corral"),
    ("https://cdn/a?X-Amz-Signature=S3cret&e=1", "https://cdn/a?X-Amz-Signature=[redacted]&e=1"),
    ("https://api/v1?key=S3cret", "https://api/v1?key=[redacted]"),
    ('{"password": "S3cret"}', '{"password": "[redacted]"}'),
    ("-----BEGIN RSA PRIVATE KEY-----\nS3cret\n-----END RSA PRIVATE KEY-----", "[redacted]"),
]
HARMLESS = [
    "send `Authorization: Bearer <key>` or `X-Api-Key: <key>`.",
    "slot launch: n_token=5, next token: 12, key=abcdefgh team=default",
    "password: too short",
    "invalid_api_key, permission_denied",
    "--api-key-file keys.txt",
    "peter@example.org has no team",
]


@pytest.mark.parametrize(("text", "left"), TEXTS)
def test_a_secret_is_taken_out_and_the_rest_stays(text, left):
    redaction = Redaction()

    assert redaction(text) == left
    assert redaction(left) == left


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_none_stays(text):
    assert Redaction()(text) == text


@pytest.mark.parametrize("mark", ["ck_", "hf_", "sk-", "Bearer ", "X-Api-Key: ", "u:pass@"])
def test_a_childs_lines_are_kept_without_secrets(mark):
    lines = {
        "ck_": (KEY, "ck_abcdefgh_[redacted]"),
        "hf_": ("hf_S3cretS3cretS3cret1", "hf_[redacted]"),
        "sk-": ("sk-S3cretS3cretS3cret1", "sk-[redacted]"),
        "Bearer ": ("bearer S3cretS3cret", "bearer [redacted]"),
        "X-Api-Key: ": ("X-Api-Key: S3cret", "X-Api-Key: [redacted]"),
        "u:pass@": ("http://u:S3cret@host/", "http://u:[redacted]@host/"),
    }
    text, left = lines[mark]

    assert harmless_lines(f"one\n{text}\ntwo\n".encode()) == f"one\n{left}\ntwo\n".encode()


def test_secrets_that_are_told_are_taken_out_the_longest_first():
    redaction = Redaction(["open-sesame", "open-sesame-please", "a"])

    assert redaction("say open-sesame-please or open-sesame") == "say [redacted] or [redacted]"


@given(st.binary())
def test_a_childs_lines_hold_nothing_that_a_terminal_obeys(data):
    kept = harmless_lines(data)

    assert kept.count(b"\n") == data.count(b"\n")
    assert not any(byte < 0x20 and byte not in b"\n\t" for byte in kept)
    assert not any(0x80 <= ord(c) < 0xA0 for c in kept.decode("utf-8", "ignore"))


@given(st.text())
def test_a_text_becomes_one_printable_line(text):
    assert harmless_text(text).replace("\t", " ").isprintable()
