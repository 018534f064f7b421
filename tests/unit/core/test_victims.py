"""V1, V2: who never goes, and who goes first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.decisions import AskExit, Kill, Reason
from scheduler.core.events import Cancelled
from scheduler.core.eviction import choose_victim, may_be_evicted
from scheduler.core.instances import Instance
from scheduler.core.states import State
from scheduler.core.values import Kind
from scheduler.core.wait_queue import WaitQueue

from .story import Story, codes, preset, started


def test_an_instance_whose_answer_is_read_is_no_victim():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")

    assert story.ask(2, "b") == []


def test_a_loading_instance_that_is_waited_for_is_no_victim():
    story = Story("a", "b", models_max=1, models_max_loading=2)
    story.ask(1, "a")

    assert story.ask(2, "b") == []


def test_a_pinned_instance_is_no_victim():
    story = Story(preset("a", pinned=True), "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")

    assert story.ask(3, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_a_sleeper_is_no_victim_for_an_entry_behind_its_own_nor_for_its_own():
    sleeper = Instance(1, preset("a"), started_at=0.0, last_used=0.0, state=State.SLEEPING)
    queue = WaitQueue(60.0)
    queue.join(1, "before", Kind.POST, 1.0, 3.0)
    queue.join(2, "a", Kind.POST, 2.0, 3.0)
    queue.join(3, "behind", Kind.POST, 3.0, 3.0)

    may = {name: may_be_evicted(sleeper, entry, queue) for name, entry in queue.entries.items()}

    assert may == {"before": True, "a": False, "behind": False}


def test_an_instance_full_of_abandoned_leases_stays_for_an_older_waiter_of_its_own():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "a")
    story.ask(3, "b")

    assert story.abandon(1) == []


def test_a_younger_waiter_of_its_own_does_not_protect_it():
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")
    story.ask(3, "a")

    assert story.abandon(1) == [AskExit(1, Reason.EVICTED, "b")]


def test_the_least_recently_used_goes():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")
    story.busy(3, "a")
    story.release(3)

    assert story.ask(4, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_a_websocket_counts_as_use_when_it_begins():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")
    story.ask(3, "a", Kind.WEBSOCKET)
    story.release(3)

    assert story.ask(4, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_a_release_is_no_use():
    story = Story("a", "b", "c", models_max=2)
    story.busy(1, "a")
    story.idle(2, "b")
    story.release(1)

    assert story.ask(3, "c") == [AskExit(1, Reason.EVICTED, "c")]


def test_a_persons_load_of_what_is_loaded_is_no_use():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.idle(2, "b")
    story.ask(3, "a", Kind.LOAD)

    assert story.ask(4, "c") == [AskExit(1, Reason.EVICTED, "c")]


def test_a_sleeper_goes_before_what_was_used_longer_ago():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.sleeping(2, "b")

    assert story.ask(3, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_a_load_that_nobody_wanted_any_more_goes_first():
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.ask(2, "b")
    story.tell(Cancelled(2))
    story.ready("b")

    assert story.ask(3, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_what_was_used_after_all_is_not_first_in_line_any_more():
    story = Story("a", "b", "c", models_max=2)
    story.sleeping(1, "a")
    story.ask(2, "b")
    story.tell(Cancelled(2))
    story.ready("b")
    story.idle(3, "b")

    assert story.ask(4, "c") == [AskExit(1, Reason.EVICTED, "c")]


def test_an_unwanted_load_under_way_is_killed_before_an_idle_instance_goes():
    story = Story("a", "b", "c", models_max=2)
    story.idle(1, "a")
    story.ask(2, "b")
    story.tell(Cancelled(2))

    assert story.ask(3, "c") == [Kill(2, Reason.UNWANTED, "c")]
    assert started(story.exit(2)) == ["c"]


def test_an_answer_nobody_reads_is_not_waited_for():
    """A request that is not streamed, abandoned early in a long answer; B waits for that room."""
    story = Story("a", "b", models_max=1)
    story.busy(1, "a")
    story.ask(2, "b")

    assert story.abandon(1) == [AskExit(1, Reason.EVICTED, "b")]


def test_what_works_for_nobody_goes_last_among_the_idle():
    story = Story("a", "b", "c", models_max=2)
    story.busy(1, "a")
    story.abandon(1)
    story.idle(2, "b")

    assert story.ask(3, "c") == [AskExit(2, Reason.EVICTED, "c")]


def test_an_abandoned_lease_beside_a_read_one_protects_no_less():
    story = Story(preset("a", parallel=2), "b", models_max=1)
    story.busy(1, "a")
    story.busy(2, "a")
    story.abandon(1)

    assert story.ask(3, "b") == []


def test_only_the_head_evicts():
    story = Story("a", "b", "c", "d", models_max=2)
    story.busy(1, "a")
    story.busy(2, "b")
    story.ask(3, "c")
    story.ask(4, "d")

    assert story.release(2) == [AskExit(2, Reason.EVICTED, "c")]


def test_a_pin_set_too_late_does_not_refuse_whom_the_room_was_made_for():
    story = Story("a", "b", models_max=1)
    story.idle(1, "a")
    story.ask(2, "b")

    assert codes(story.edit(preset("a", pinned=True), "b")) == {}
    assert started(story.exit(1)) == ["b"]


@st.composite
def settled_instances(draw):
    leases = draw(st.sets(st.integers(1, 2)))
    return [
        Instance(
            number,
            preset(f"p{number}", pinned=draw(st.booleans())),
            started_at=0.0,
            last_used=float(draw(st.integers(0, 5))),
            state=draw(st.sampled_from(State)),
            unwanted=draw(st.booleans()),
            leases=set(leases),
            abandoned=draw(st.sampled_from([set(), set(leases)])),
        )
        for number in range(draw(st.integers(0, 5)))
    ]


@given(settled_instances())
def test_the_victim_is_the_least_recently_used_of_the_best_class(instances):
    queue = WaitQueue(60.0)
    queue.join(1, "head", Kind.POST, 0.0, 0.0)
    entry = queue.entries["head"]

    victim = choose_victim(instances, entry, queue)

    idle = [i for i in instances if may_be_evicted(i, entry, queue) and i.idle]
    plain = [i for i in idle if i.state is State.LOADED and not i.unwanted]
    if victim in plain:
        assert victim.last_used == min(i.last_used for i in plain)
        assert idle == plain, "a sleeper or an unwanted one would have gone before"
    elif victim is None:
        assert not idle
    else:
        assert not victim.preset.pinned
        assert not victim.busy
