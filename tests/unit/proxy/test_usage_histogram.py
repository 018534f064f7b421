"""Times in buckets: what is told of them is as close as it is said to be."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.rollups.histogram import (
    FINEST_SECONDS,
    LAST,
    RELATIVE_ERROR,
    added,
    bucket_of,
    middle_of,
    percentile,
)

times = st.floats(0.0, 16_000.0)
SHARES = (0.01, 0.5, 0.9, 0.99, 1.0)


@given(st.lists(times, min_size=1, max_size=200), st.sampled_from(SHARES))
def test_a_percentile_is_no_further_off_than_the_bound(seconds: list[float], share: float) -> None:
    right = sorted(seconds)[max(0, math.ceil(share * len(seconds)) - 1)]

    told = percentile(Counter(map(bucket_of, seconds)), share)

    assert told is not None
    if right < FINEST_SECONDS:
        assert told < FINEST_SECONDS * 2
    else:
        assert right * (1 - RELATIVE_ERROR) <= told * 1.000001
        assert told <= right * (1 + RELATIVE_ERROR) * 1.000001


def test_the_bound_is_the_one_that_the_documents_state() -> None:
    assert RELATIVE_ERROR < 0.045
    assert 4.4 < middle_of(LAST) / 3600 < 4.6


@given(st.lists(times, max_size=50), st.lists(times, max_size=50))
def test_sums_of_buckets_are_buckets_of_all(one: list[float], other: list[float]) -> None:
    parts = [Counter(map(bucket_of, each)) for each in (one, other)]

    assert added(parts) == dict(Counter(map(bucket_of, [*one, *other])))


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(-5.0, 0), (0.0, 0), (math.nan, 0), (math.inf, LAST), (1e300, LAST), (0.001, 1)],
)
def test_odd_times_have_a_bucket(seconds: float, bucket: int) -> None:
    assert bucket_of(seconds) == bucket


def test_of_nothing_there_is_no_percentile() -> None:
    assert percentile({}, 0.5) is None
