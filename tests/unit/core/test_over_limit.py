"""L1: a budget or a margin that leaves less than what is held."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Drain, Reason, Undrain
from scheduler.core.events import AllocationReported, DevicesRead
from scheduler.core.sizes import HOST, FixedShape, Need
from scheduler.core.values import VictimPolicy

from .memory import listing
from .shapes import A
from .story import Story, preset, refused, started

OVER = Reason.OVER_LIMIT


def machine(**sizes: int) -> Story:
    """A GPU of 20 bytes, and presets of these sizes."""
    presets = [preset(name, need=((A, size),)) for name, size in sizes.items()]
    story = Story(*presets, models_max=0, victim_policy=VictimPolicy.LRU)
    limit(story)
    return story


def limit(story: Story, *, others: int = 0, **limits: int) -> list:
    return story.tell(DevicesRead((listing(A, 20, others=others, **limits),)))


def test_the_idle_go_as_few_as_suffice_and_the_record_says_why():
    story = machine(a=8, b=3, c=4)
    for request, name in enumerate("abc"):
        story.idle(request, name)

    (gone,) = limit(story, budget=12)

    assert gone == AskExit(story.of("b").id, OVER)
    assert dict(gone.figures) == {"over_CUDA0": 3, "frees_CUDA0": 3}
    assert limit(story, budget=12) == []


def test_a_margin_that_is_raised_makes_them_go_too():
    story = machine(a=8, b=4)
    story.idle(1, "a")
    story.idle(2, "b")

    assert limit(story, margin=9) == [AskExit(story.of("b").id, OVER)]


def test_a_busy_one_ends_its_answers_takes_no_new_one_and_then_goes():
    story = machine(a=8)
    number = story.busy(1, "a")

    assert limit(story, budget=5) == [Drain(number, OVER)]
    assert story.ask(2, "a")[0].refusal.code == "model_too_large"
    assert story.release(1) == [AskExit(number, OVER)]


def test_idle_and_busy_go_together_where_the_idle_do_not_suffice():
    story = machine(a=8, b=8)
    story.busy(1, "a")
    story.idle(2, "b")

    told = limit(story, budget=3)

    assert set(told) == {Drain(story.of("a").id, OVER), AskExit(story.of("b").id, OVER)}


def test_nothing_starts_until_it_fits():
    story = machine(a=8, b=4)
    story.busy(1, "a")
    limit(story, budget=5)

    assert started(story.ask(2, "b")) == []
    story.release(1)
    assert started(story.exit(story.of("a").id)) == ["b"]


def test_a_limit_that_is_raised_again_undoes_it():
    story = machine(a=8)
    number = story.busy(1, "a")
    limit(story, budget=5)

    assert limit(story, budget=5, others=1) == []
    assert limit(story, budget=8) == [Undrain(number, Reason.NO_LONGER_NEEDED)]
    assert story.ask(2, "a") == []  # the one slot is taken
    assert [d.instance for d in story.release(1)] == [number]


def test_pinned_ones_stay():
    story = Story(preset("a", need=((A, 8),), pinned=True), models_max=0)
    limit(story)
    story.idle(1, "a")

    assert limit(story, budget=5) == []


def test_what_others_take_and_what_was_taken_beyond_a_grant_make_nobody_go():
    story = machine(a=8)
    number = story.idle(1, "a")

    assert limit(story, others=15) == []
    assert story.tell(AllocationReported(number, Need(((A, 19),)))) == []
    assert limit(story, budget=18) == [AskExit(number, OVER)]


def test_one_that_loads_goes_when_it_has_loaded():
    story = machine(a=8)
    story.ask(1, "a")
    assert limit(story, budget=5) == []

    told = story.ready("a")

    assert Drain(story.of("a").id, OVER) in told
    assert not refused(told)


def test_a_file_that_others_map_is_not_freed_by_one_of_them():
    shape = FixedShape(((0, Need(((HOST, 2),), (("f", 6),))),))
    story = Story(*(preset(name, fixed=shape) for name in "ab"), models_max=0)
    story.tell(DevicesRead((listing(HOST, 20),)))
    story.idle(1, "a")
    story.idle(2, "b")

    (gone,) = story.tell(DevicesRead((listing(HOST, 20, budget=9),)))
    assert gone == AskExit(story.of("a").id, OVER)
    story.exit(gone.instance)
    assert story.tell(DevicesRead((listing(HOST, 20, budget=7),))) == [
        AskExit(story.of("b").id, OVER)
    ]
