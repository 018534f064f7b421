from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.sse import Tail, Usage, WholeFrames

ENDS = [b"\n\n", b"\r\n\r\n", b"\r\r"]
lines = st.binary(max_size=12).map(lambda b: b"data: " + b.replace(b"\r", b"").replace(b"\n", b""))


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[a:b] for a, b in pairwise(places)]


@given(st.lists(lines), st.sampled_from(ENDS), st.binary(max_size=5), st.lists(st.integers(0)))
def test_frames_pass_whole_and_unchanged_however_they_are_cut(found, end, rest, at):
    stream = b"".join(line + end for line in found) + rest.replace(b"\r", b"").replace(b"\n", b"")
    frames = WholeFrames()

    passed = [frames.push(part) for part in cut(stream, at)]

    assert all(not part or part.endswith(tuple(ENDS)) for part in passed)
    assert b"".join(passed) + frames.rest() == stream


@given(st.binary(), st.lists(st.integers(0)))
def test_no_byte_is_lost_of_what_is_no_event_stream(stream, at):
    frames = WholeFrames()

    passed = b"".join(frames.push(part) for part in cut(stream, at))

    assert passed + frames.rest() == stream


def test_an_error_replaces_the_frame_that_was_not_whole():
    frames = WholeFrames()
    passed = frames.push(b"data: 1\n\ndata: half")

    assert passed + frames.error(b"{}") == b"data: 1\n\ndata: {}\n\n"


def test_a_frame_too_long_to_hold_back_is_ended_before_the_error():
    frames = WholeFrames()
    long = b"data: " + b"x" * 100_000

    assert frames.push(long) == long
    assert frames.error(b"{}") == b"\n\ndata: {}\n\n"


def test_a_long_frame_that_ended_needs_no_other_end():
    frames = WholeFrames()
    frames.push(b"data: " + b"x" * 100_000)
    frames.push(b"\n\n")

    assert frames.error(b"{}") == b"data: {}\n\n"


LAST_EVENTS = (
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"timings":{"cache_n":2,"prompt_n":5,'
    b'"predicted_n":9,"predicted_ms":1.5}}\n\ndata: [DONE]\n\n'
)


@given(st.binary(max_size=300), st.lists(st.integers(0)))
def test_the_usage_of_a_stream_is_found_however_it_is_cut(before, at):
    tail = Tail()
    noise = before.replace(b'"', b"'")
    for part in cut(noise + b"\n\n" + LAST_EVENTS, at):
        tail.push(part)

    assert tail.usage() == Usage(read=7, cached=2, answered=9)


def test_stated_usage_goes_before_timings():
    tail = Tail()
    tail.push(
        b'{"usage": {"prompt_tokens": 30, "completion_tokens": 4,'
        b' "prompt_tokens_details": {"cached_tokens": 20}},'
        b' "timings": {"cache_n": 1, "prompt_n": 1, "predicted_n": 1}}'
    )

    assert tail.usage() == Usage(read=30, cached=20, answered=4)


def test_the_usage_before_long_vectors_is_found():
    tail = Tail()
    tail.push(b'{"object":"list","usage":{"prompt_tokens":6,"total_tokens":6},"data":[')
    for _ in range(100):
        tail.push(b"0.123," * 1000)

    assert tail.usage() == Usage(read=6)


def test_an_answers_text_cannot_pass_for_its_usage():
    tail = Tail()
    text = '"usage":{"prompt_tokens":1000000,"completion_tokens":1000000}'
    tail.push(json.dumps({"content": text}).encode())

    assert tail.usage() == Usage()


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        (b'{"usage":{"prompt_tokens":0,"completion_tokens":0}}', Usage(0, None, 0)),
        (b'{"timings":{"predicted_n":4}}', Usage(None, None, 4)),
        (b'{"timings":{"cache_n":3,"prompt_n":0}}', Usage(3, 3, None)),
        (b'{"usage":{"prompt_tokens":true,"completion_tokens":9}}', Usage(None, None, 9)),
        (b'{"error":{"code":400}}', Usage(None, None, None)),
    ],
)
def test_what_is_not_stated_is_not_taken_for_none(answer, usage):
    tail = Tail()
    tail.push(answer)

    assert tail.usage() == usage


@pytest.mark.parametrize(
    "figures",
    [
        b'{"usage":{"prompt_tokens":-5,"completion_tokens":"9"}}',
        b'{"usage":{"prompt_tokens":1e400}}',
        b'{"usage":null,"timings":[]}',
        b'{"usage":{' + b'"a":{' * 20_000,
        b'{"usage":{"prompt_tokens":' + b"9" * 10_000 + b"}}",
    ],
)
def test_odd_figures_count_as_none(figures):
    tail = Tail()
    tail.push(figures)

    assert tail.usage() == Usage()


def test_a_long_answer_takes_no_more_memory_than_a_short_one():
    tail = Tail()
    tracemalloc.start()
    try:
        for _ in range(20_000):
            tail.push(b"data: " + b"x" * 994)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size < 100_000


def test_the_usage_of_anthropics_streams_is_put_together_from_both_ends():
    tail = Tail()
    tail.push(
        b'event: message_start\ndata: {"type":"message_start","message":{"usage":'
        b'{"cache_read_input_tokens":7,"input_tokens":24,"output_tokens":0}}}\n\n'
    )
    tail.push(b'data: {"delta":{"text":"x"}}\n\n' * 2000)
    tail.push(b'data: {"type":"message_delta","usage":{"output_tokens":3}}\n\n')

    assert tail.usage() == Usage(read=31, cached=7, answered=3)


def test_the_usage_of_a_response_is_read():
    tail = Tail()
    tail.push(
        b'data: {"type":"response.completed","response":{"usage":{"input_tokens":31,'
        b'"output_tokens":5,"total_tokens":36,"input_tokens_details":{"cached_tokens":30}}}}\n\n'
    )

    assert tail.usage() == Usage(read=31, cached=30, answered=5)


def test_an_error_event_has_its_name_where_the_dialect_names_events():
    assert WholeFrames().error(b"{}", "error") == b"event: error\ndata: {}\n\n"


counts = st.one_of(
    st.none(), st.integers(-1, 1 << 54), st.booleans(), st.floats(0, 9), st.just({}), st.just("7")
)
names = st.sampled_from(
    ["prompt_tokens", "completion_tokens", "cached_tokens", "input_tokens", "output_tokens",
     "cache_read_input_tokens", "cache_n", "prompt_n", "predicted_n"]
)  # fmt: skip
figures = st.dictionaries(names, counts, max_size=5)
usages = st.builds(
    lambda told, details: told | details,
    st.one_of(
        figures, st.fixed_dictionaries({"prompt_tokens": counts, "completion_tokens": counts})
    ),
    st.dictionaries(st.sampled_from(["prompt_tokens_details", "input_tokens_details"]), figures),
)
answers = st.dictionaries(
    st.sampled_from(["id", "usage", "timings", "choices", "message"]),
    st.one_of(usages, usages.map(lambda told: {"usage": told}), st.text(max_size=5), counts),
)


@given(answers)
def test_the_usage_of_a_whole_answer_is_the_one_that_is_found_by_looking_through_it(answer):
    body = json.dumps(answer).encode()
    whole, looked_through = Tail(), Tail()

    whole.push(body)
    looked_through.push(b" " * (20 << 10))  # so that it is not all there
    looked_through.push(body)

    assert whole.usage() == looked_through.usage()
