"""L8: what sleeps has given its memory back, and waking is an admission like a load."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Drain, Reason, Wake
from scheduler.core.events import AllocationReported, DevicesRead, LoadingReported
from scheduler.core.sizes import HOST, FixedShape, Need
from scheduler.core.values import Kind

from .memory import listing
from .shapes import A, B, model, whole
from .story import Story, codes, granted, preset, started


def on_gpu(name: str, size: int, **options):
    return preset(name, need=((A, size),), **options)


def machine(*presets, **config) -> Story:
    """Ten bytes on one GPU."""
    story = Story(*presets, **{"models_max": 0, **config})
    story.devices(CUDA0=10)
    return story


# Asleep ----------------------------------------------------------------------------------


def test_what_falls_asleep_gives_its_memory_back():
    story = machine(on_gpu("a", 8), on_gpu("b", 8))
    story.sleeping(1, "a")

    assert started(story.ask(2, "b")) == ["b"]


def test_who_waits_for_memory_starts_when_one_falls_asleep():
    story = machine(on_gpu("a", 8, min_residency_seconds=20.0), on_gpu("b", 8))
    story.idle(1, "a")
    assert story.ask(2, "b") == []

    assert started(story.asleep("a")) == ["b"]


def test_a_sleeper_is_no_victim_for_memory_that_it_does_not_hold():
    story = machine(on_gpu("a", 8), on_gpu("b", 4), on_gpu("c", 8))
    story.sleeping(1, "a")
    b = story.idle(2, "b")

    assert story.ask(3, "c") == [AskExit(b, Reason.EVICTED, "c")]


def test_a_sleeper_that_keeps_something_holds_that():
    story = machine(on_gpu("a", 8), on_gpu("b", 8))
    a = story.sleeping(1, "a")
    story.tell(AllocationReported(a, Need(((A, 3),))))

    assert story.ask(2, "b") == [AskExit(a, Reason.EVICTED, "b")]


def test_falling_asleep_under_a_lease_releases_no_memory():
    story = machine(on_gpu("a", 8), on_gpu("b", 8))
    story.busy(1, "a")
    story.asleep("a")

    assert started(story.ask(2, "b")) == []


# A wake ----------------------------------------------------------------------------------


def test_a_wake_takes_its_memory_again():
    story = machine(on_gpu("a", 8), on_gpu("b", 8))
    a = story.sleeping(1, "a")
    assert story.ask(2, "a") == [Wake(a)]

    assert story.ask(3, "b") == []
    assert granted(story.ready("a")) == [2]


def test_a_wake_takes_what_it_was_seen_to_take_awake():
    story = machine(on_gpu("a", 6), on_gpu("b", 4))
    a = story.idle(1, "a")
    story.tell(AllocationReported(a, Need(((A, 7),))))
    story.asleep("a")
    b = story.idle(2, "b")

    assert story.ask(3, "a") == [AskExit(b, Reason.EVICTED, "a")]
    assert story.exit(b) == [Wake(a)]


def test_a_wake_evicts_the_idle():
    story = machine(on_gpu("a", 8), on_gpu("b", 8))
    a = story.sleeping(1, "a")
    b = story.idle(2, "b")

    assert story.ask(3, "a") == [AskExit(b, Reason.EVICTED, "a")]
    assert story.exit(b) == [Wake(a)]
    assert granted(story.ready("a")) == [3]


def test_a_wake_has_a_busy_one_drained_for_it():
    story = machine(on_gpu("a", 8), on_gpu("b", 8), max_wait_seconds=0)
    a = story.sleeping(1, "a")
    b = story.busy(2, "b")

    assert story.ask(3, "a") == [Drain(b, Reason.EVICTED, "a")]
    assert story.release(2) == [AskExit(b, Reason.EVICTED, "a")]
    assert story.exit(b) == [Wake(a)]


def test_a_wake_evicts_nobody_for_what_it_keeps_asleep():
    story = machine(on_gpu("a", 8), on_gpu("b", 2))
    a = story.sleeping(1, "a")
    story.tell(AllocationReported(a, Need(((A, 3),))))
    story.idle(2, "b")

    assert story.ask(3, "a") == [Wake(a)]


def test_a_start_up_load_wakes_nothing_that_somebody_would_have_to_go_for():
    story = machine(on_gpu("a", 8), on_gpu("b", 8))
    story.sleeping(1, "a")
    story.idle(2, "b")

    assert codes(story.ask(3, "a", Kind.STARTUP)) == {3: "does_not_fit"}


def test_a_child_that_wakes_by_itself_holds_its_memory_again():
    story = machine(on_gpu("a", 8), on_gpu("b", 8))
    a = story.sleeping(1, "a")
    story.tell(LoadingReported(a))

    assert started(story.ask(2, "b")) == []


def test_a_child_that_woke_without_a_word_holds_its_memory_again():
    story = machine(on_gpu("a", 8), on_gpu("b", 8))
    a = story.sleeping(1, "a")
    story.ready("a")

    assert story.ask(2, "b") == [AskExit(a, Reason.EVICTED, "b")]


# Elsewhere -------------------------------------------------------------------------------


def moving() -> Story:
    """a sleeps on the first GPU, which a pinned one has taken; the second is free."""
    a = preset("a", open=model(8, devices=(A, B), mapped=(99, 0)))
    story = Story(a, on_gpu("p", 8, pinned=True), models_max=0)
    story.devices(CUDA0=8, CUDA1=9, Host=9)
    story.sleeping(1, "a")
    story.busy(2, "p")
    return story


def test_a_sleeper_whose_place_is_taken_for_good_goes_and_starts_elsewhere():
    story = moving()
    a = story.of("a").id

    exit, start = story.ask(3, "a")

    assert exit == AskExit(a, Reason.MOVED)
    assert start.grant.placement == whole(B, 1)


def test_a_sleeper_whose_place_others_have_taken_starts_elsewhere():
    a = preset("a", open=model(8, devices=(A, B), mapped=(99, 0)))
    story = Story(a, models_max=0)
    story.devices(CUDA0=8, CUDA1=9)
    story.sleeping(1, "a")
    story.tell(DevicesRead((listing(A, 8, others=4), listing(B, 9))))

    exit, start = story.ask(2, "a")

    assert exit == AskExit(1, Reason.MOVED)
    assert start.grant.placement == whole(B, 1)


def test_a_sleeper_that_still_answers_is_not_cut_to_start_elsewhere():
    story = machine(on_gpu("a", 8, parallel=2))
    story.busy(1, "a")
    story.ask(2, "a")
    story.asleep("a")
    story.tell(DevicesRead((listing(A, 10, others=4), listing(HOST, 60))))

    assert not any(isinstance(d, AskExit) for d in story.ask(3, "a"))
    assert story.leases("a") == {1, 2}


# On a server, which takes in its weights anew --------------------------------------------


def test_a_wake_needs_what_a_load_needs_besides_until_it_is_ready():
    need = Need(((A, 8),), passing=((A, 3),))
    story = machine(preset("a", fixed=FixedShape(((0, need),))), on_gpu("b", 3))
    a = story.idle(1, "a")
    story.tell(AllocationReported(a, Need(((A, 5),))))
    story.asleep("a")
    b = story.idle(2, "b")

    assert story.ask(3, "a") == [AskExit(b, Reason.EVICTED, "a")]
    assert story.exit(b) == [Wake(a)]
    assert story.planner.ledger.free()[0][A] == 2
    story.ready("a")

    assert story.planner.ledger.free()[0][A] == 5
