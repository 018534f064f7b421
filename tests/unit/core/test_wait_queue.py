"""Who waits for one model: the order in which they are served, and what leaving costs."""

from __future__ import annotations

import gc
from types import FunctionType, ModuleType

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.values import Kind

from .outside import RANK
from .story import Story, granted

WAITS = [Kind.POST, Kind.WEBSOCKET, Kind.LOAD, Kind.STARTUP]

joins = st.tuples(st.just("join"), st.integers(0, 9), st.sampled_from(WAITS))
leaves = st.tuples(st.just("leave"), st.integers(1, 60), st.none())


@given(st.lists(joins | leaves, max_size=60))
def test_the_next_is_the_best_place_among_those_still_waiting(steps):
    story = Story("a", queue_wait_seconds=1e9, load_stall_seconds=1e9)
    story.until(10)
    story.ask(0, "a", arrived=-1.0)
    places = {0: (0, -1.0, 0)}
    for number, (step, value, kind) in enumerate(steps, start=1):
        if step == "join":
            story.ask(number, "a", kind, arrived=float(value), after=0.0)
            places[number] = (RANK[kind], float(value), number)
        elif value:
            story.cancel(value)
            places.pop(value, None)
        [entry] = story.planner.entries(story.now)
        assert entry.waiters == len(places)

    served = granted(story.ready("a"))
    for request in served:
        served += granted(story.release(request))

    work = [request for request, place in places.items() if place[0] == 0]
    assert sorted(served) == sorted(places)
    assert [r for r in served if r in work] == sorted(work, key=places.__getitem__)


def objects_of(root: object) -> int:
    """How many objects it keeps alive, classes and code left out."""
    seen, reached = {id(root)}, [root]
    for thing in reached:
        for other in gc.get_referents(thing):
            if id(other) not in seen and not isinstance(other, type | ModuleType | FunctionType):
                seen.add(id(other))
                reached.append(other)
    return len(reached)


def test_those_who_left_are_not_kept_behind_one_who_stays():
    def kept_after(leavers: int) -> int:
        story = Story("a", "b", models_max=1)
        story.busy(1, "b")
        story.ask(2, "a", after=0.0)
        for request in range(3, 3 + leavers):
            story.ask(request, "a", after=0.0, tenant=f"t{request % 7}")
            story.cancel(request)
        return objects_of(story.planner)

    assert kept_after(4_000) < kept_after(500) + 2_000
