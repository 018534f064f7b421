"""What in a request's body is an image and no text, of which tokens are estimated by its bytes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.limits.reserving import LEAST_BLOB, TOKENS_A_BLOB, blobs, prompt_tokens

PLAIN = re.compile(rb"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{%d,}={0,2}" % LEAST_BLOB)
HALF = LEAST_BLOB // 2
LENGTHS = st.sampled_from([0, 1, 3, HALF - 1, HALF, 2 * HALF - 1, 2 * HALF, 2 * HALF + 1, 5000])
PARTS = st.one_of(
    LENGTHS.map(lambda length: b"a" * length),
    LENGTHS.map(lambda length: b" " * length),
    st.sampled_from([b'"', b" ", b"=", b"==", b"\xff", b"x y " * 170]),
)


@given(st.lists(PARTS, max_size=8).map(b"".join))
def test_they_are_found_wherever_they_begin(body: bytes) -> None:
    assert list(blobs(body)) == [len(found) for found in PLAIN.findall(body)]


@pytest.mark.parametrize("image", [10_000, 1_000_000])
def test_an_image_counts_as_one_however_large_it_is(image: int) -> None:
    body = b'{"url":"data:image/png;base64,' + b"iVBO" * (image // 4) + b'=="}'

    assert prompt_tokens(body) == TOKENS_A_BLOB + 8


def test_long_words_cost_no_more_than_others() -> None:
    """As many looks as steps: by a plain search this took minutes."""
    body = (b"a" * (LEAST_BLOB - 1) + b" ") * 5000

    assert prompt_tokens(body) == len(body) // 4
