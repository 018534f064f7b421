"""No object of a body has more keys than a child reads in a moment."""

from __future__ import annotations

import json

import pytest

from proxy.addressing import address
from proxy.objects import MOST_KEYS, ObjectTooLarge, check_objects
from scheduler.protocol import Refused


def keys(count: int) -> dict[str, int]:
    return {f"k{number}": 1 for number in range(count)}


@pytest.mark.parametrize(
    "body",
    [
        keys(MOST_KEYS + 1),
        {"tools": [{"properties": keys(MOST_KEYS + 1)}]},
        [1, [keys(50_000)]],
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_an_object_of_too_many_keys_is_found_wherever_it_stands(body, indent):
    with pytest.raises(ObjectTooLarge, match="more than 4000 keys"):
        check_objects(json.dumps(body, indent=indent).encode())


@pytest.mark.parametrize(
    "body",
    [
        keys(MOST_KEYS),
        {"messages": [{"role": "user", "content": "x"}] * 5000},
        {"prompt": json.dumps(keys(20_000))},
        {"numbers": list(range(100_000))},
    ],
)
def test_many_small_objects_and_long_texts_are_none(body):
    check_objects(json.dumps(body).encode())


def test_whoever_sends_one_is_told_so():
    with pytest.raises(Refused, match="object of more than 4000 keys") as refusal:
        address(json.dumps({"model": "m", **keys(10_000)}).encode())

    assert refusal.value.code == "invalid_request"


def test_a_number_of_a_million_digits_takes_no_time():
    body = json.dumps({"a": [keys(10)] * 500}).encode()
    check_objects(body[:-1] + b',"n":' + b"9" * 1_000_000 + b"}")


def test_what_would_take_much_memory_to_look_at_is_refused_unread():
    small = b'{"a":1,"b":2},'
    with pytest.raises(ObjectTooLarge, match="more than 400000 keys"):
        check_objects(b"[" + small * 250_000 + b"0]")
    with pytest.raises(ObjectTooLarge, match="larger than"):
        check_objects(b"[" + small * 5000 + b'"' + b"x" * (32 << 20) + b'"]')
