"""The line of waiters: its order, and what leaving it costs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.values import Kind
from scheduler.core.wait_queue import WaitQueue

joins = st.tuples(st.just("join"), st.integers(0, 9), st.sampled_from(Kind))
leaves = st.tuples(st.just("leave"), st.integers(0, 60), st.none())


@given(st.lists(joins | leaves, max_size=60))
def test_the_first_is_the_best_place_among_those_still_waiting(steps):
    queue = WaitQueue(60.0)
    waiting: dict[int, tuple[int, int, int]] = {}
    rank = {Kind.POST: 0, Kind.WEBSOCKET: 0, Kind.LOAD: 1, Kind.STARTUP: 2}
    for number, (step, value, kind) in enumerate(steps):
        if step == "join":
            queue.join(number, "a", kind, float(value), 0.0)
            waiting[number] = (rank[kind], value, number)
        else:
            assert (queue.leave(value) is not None) == (waiting.pop(value, None) is not None)

        assert len(queue) == len(waiting)
        assert ("a" in queue.entries) == bool(waiting)
        if waiting:
            assert queue.entries["a"].first.request == min(waiting, key=waiting.__getitem__)

    assert [w.request for w in queue.drop("a")] == sorted(waiting, key=waiting.__getitem__)


def test_those_who_left_are_not_kept_behind_one_who_stays():
    queue = WaitQueue(60.0)
    queue.join(0, "a", Kind.POST, 0.0, 0.0)
    for request in range(1, 10_000):
        queue.join(request, "a", Kind.POST, float(request), 0.0)
        queue.leave(request)

    line = queue.entries["a"].requests

    assert len(line._by_place) < 200
    assert len(line._by_expiry) < 200
