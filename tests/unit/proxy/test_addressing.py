from __future__ import annotations

import contextlib
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.addressing import LONGEST_MODEL, address, address_query
from proxy.objects import MOST_KEYS
from scheduler.protocol import Refused

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
bodies = st.dictionaries(st.text() | st.sampled_from(["model", "stream"]), json_values)


@given(bodies, st.text(min_size=1, max_size=LONGEST_MODEL), st.booleans())
def test_the_model_is_found_whatever_stands_around_it(fields, model, escape):
    fields["model"] = model
    body = json.dumps(fields, ensure_ascii=escape).encode("utf-8", "surrogatepass")
    try:
        expected = json.loads(body.decode())["model"]
        expected.encode()
    except UnicodeError:
        with pytest.raises(Refused, match="JSON"):
            address(body)
        return

    assert address(body) == expected


@given(bodies, st.data())
def test_a_body_cut_anywhere_is_refused(fields, data):
    body = json.dumps({**fields, "model": "m"}).encode()
    cut = data.draw(st.integers(0, len(body) - 1))

    with pytest.raises(Refused) as refusal:
        address(body[:cut])

    assert refusal.value.code == "invalid_json"


@given(st.binary())
def test_no_bytes_do_more_than_be_refused(body):
    with pytest.raises(Refused):
        address(body)


@pytest.mark.parametrize("body", [b"{}", b'{"model":null}', b'{"model":""}'])
def test_a_body_that_names_no_model_asks_for_the_default(body):
    assert address(body) == ""


@given(json_values.filter(lambda value: value is not None and not isinstance(value, str)))
def test_a_model_that_is_no_string_counts_as_missing(value):
    with pytest.raises(Refused) as refusal:
        address(json.dumps({"model": value}).encode())

    assert refusal.value.code in ("model_missing", "invalid_request")


def test_the_second_model_is_found_however_it_is_written():
    for twice in (
        b'{"model":"a","model":"a"}',
        b'{"model":null,"model":"a"}',
        b'{"model":"a","x":0,"\\u006dodel":"b"}',
        b'{"m\\u006Fdel":"a","x":"\\u00e9","mode\\u006c":"b"}',
    ):
        with pytest.raises(Refused, match="more than one"):
            address(twice)


def test_the_word_model_elsewhere_is_no_second_one():
    body = b'{"x":"\\"model\\":","model":"y","o":{"model":"z","\\u006dodel":1},"a":["model"]}'

    assert address(body) == "y"


def test_a_name_that_no_model_can_have_is_unknown_and_shortened():
    assert address(json.dumps({"model": "é" * LONGEST_MODEL}).encode()) == "é" * LONGEST_MODEL
    with pytest.raises(Refused) as refusal:
        address(json.dumps({"model": "m" * (LONGEST_MODEL + 1)}).encode())

    assert refusal.value.code == "model_not_found"
    assert len(refusal.value.message) < LONGEST_MODEL


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","stream":[' + b"[]," * 300_000 + b"0]}",
        b'{"model":"m","stream":{' + b'"a":[],' * 200_000 + b'"b":0}}',
        b'{"model":[' + b"[]," * 300_000 + b"0]}",
        b'{"model":"m","model":[' + b"[]," * 300_000 + b"0]}",
        b'{"model":{' + b'"a":[],' * 200_000 + b'"b":0}}',
        b"{" + b",".join(b'"k%d":0' % number for number in range(100_000)) + b"}",
        b'{"\\u006dodel":"",' + b'"model":"",' * 100_000 + b'"model":""}',
    ],
    ids=lambda body: body[:30].decode(),
)
def test_no_values_are_built_however_many_there_are(body):
    tracemalloc.start()
    try:
        with contextlib.suppress(Refused):
            address(body)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    looked_into = body.count(b'":') > MOST_KEYS  # for an object of too many keys
    assert most < (20 * len(body) if looked_into else 100_000)


def test_a_model_further_down_is_not_the_bodys_model():
    assert address(b'{"tools":[{"model":"x"}],"model":"y","o":{"model":"z"}}') == "y"


def test_a_query_names_its_model_decoded():
    assert address_query(b"autoload=false&model=a%2Fb%3AQ4_K_M&x=1") == "a/b:Q4_K_M"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (b"", "model_missing"),
        (b"model", "model_missing"),
        (b"model=", "model_missing"),
        (b"model=a&model=a", "invalid_request"),
        (b"model=%ff", "invalid_request"),
        (b"model=\xff", "invalid_request"),
        (b"&".join([b"x=1"] * 200), "invalid_request"),
        (b"model=" + b"x" * 201, "model_not_found"),
    ],
)
def test_a_query_that_names_no_model_or_two_is_refused(query, code):
    with pytest.raises(Refused) as refusal:
        address_query(query)

    assert refusal.value.code == code
