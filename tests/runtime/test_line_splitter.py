"""Lines out of bytes, however the bytes come."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scheduler.runtime.line_splitter import LineSplitter

LINES = st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=8)


@given(lines=LINES, rest=st.binary(max_size=5), cuts=st.lists(st.integers(0, 200), max_size=10))
def test_lines_are_the_same_however_the_bytes_are_cut(lines, rest, cuts):
    rest = rest.replace(b"\n", b"")
    data = b"".join(line + b"\n" for line in lines) + rest
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    splitter = LineSplitter(1000)

    got = [line for start, end in pairwise(places) for line in splitter.feed(data[start:end])]

    assert got == lines
    assert splitter.end() == rest
    assert splitter.dropped == 0


@given(
    lines=LINES,
    rest=st.binary(max_size=5),
    cuts=st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=10),
)
def test_as_one_piece_they_are_the_same_lines(lines, rest, cuts):
    rest = rest.replace(b"\n", b"")
    data = b"".join(line + b"\n" for line in lines) + rest
    places = [0, *sorted(cut for cut, _ in cuts if cut < len(data)), len(data)]
    whole = [*(way for _, way in cuts), True, True]
    splitter, got = LineSplitter(1000), b""

    for (start, end), as_one in zip(pairwise(places), whole, strict=False):
        piece = data[start:end]
        if as_one:
            got += splitter.feed_whole(piece)
        else:
            got += b"".join(line + b"\n" for line in splitter.feed(piece))

    assert got + splitter.end() == data


@given(size=st.integers(0, 60), step=st.integers(1, 30))
def test_as_one_piece_a_line_over_the_limit_is_dropped(size, step):
    splitter = LineSplitter(10)
    data = b"x" * size + b"\nnext\n"

    got = [splitter.feed_whole(data[at : at + step]) for at in range(0, len(data), step)]

    # What comes with its end is not cut again: a line of less than the limit and one piece passes
    assert b"".join(got) in (data, b"next\n")
    assert splitter.dropped == (b"".join(got) != data)
    assert splitter.dropped or size <= 10 + step


@given(size=st.integers(0, 30), step=st.integers(1, 30))
def test_a_line_over_the_limit_is_dropped_and_the_next_one_kept(size, step):
    splitter = LineSplitter(10)
    data = b"x" * size + b"\nnext\n"

    got = [line for at in range(0, len(data), step) for line in splitter.feed(data[at : at + step])]

    assert got == ([b"next"] if size > 10 else [b"x" * size, b"next"])
    assert splitter.dropped == (1 if size > 10 else 0)


def test_a_line_that_never_ends_takes_no_memory():
    splitter = LineSplitter(10)
    for _ in range(1000):
        assert splitter.feed(b"x" * 1000) == []

    assert splitter.end() == b""
    assert splitter.dropped == 1
