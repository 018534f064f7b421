"""L4: what an exit gives back is on its way for a few seconds, and given out when it has come."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Reason
from scheduler.core.events import DevicesRead
from scheduler.core.values import Kind

from .memory import reading
from .shapes import A
from .story import Story, codes, preset, started


def on_gpu(name: str, size: int, **options):
    return preset(name, need=((A, size),), **options)


def read(story: Story, *, used: int, **told) -> list:
    return story.tell(DevicesRead((reading(A, 10, others=used, **told),)))


def evicting() -> Story:
    """x is gone and its bytes are on their way; y waits for them."""
    story = Story(on_gpu("x", 8), on_gpu("y", 8), models_max=0, returning_seconds=5.0)
    read(story, used=0)
    story.idle(1, "x")
    read(story, used=8)
    assert story.ask(2, "y") == [AskExit(1, Reason.EVICTED, "y")]
    assert story.exit(1) == []
    return story


def test_a_start_waits_until_a_reading_shows_that_the_memory_is_free():
    story = evicting()

    assert read(story, used=8) == []
    assert started(read(story, used=2)) == ["y"]


def test_without_such_a_reading_it_waits_for_five_seconds():
    story = evicting()
    exited_at = story.now

    decided = story.through(exited_at + 10)

    assert [(at, started([d])) for at, d in decided] == [(exited_at + 5.0, ["y"])]


def test_what_is_seen_in_use_after_that_time_is_somebody_elses():
    story = evicting()
    exited_at = story.now
    read(story, used=8)

    assert story.until(exited_at + 5.0) == []
    assert read(story, used=8) == []
    assert started(read(story, used=0)) == ["y"]


def test_a_stale_reading_shows_nothing_free():
    story = evicting()

    assert read(story, used=0, stale=True) == []


def test_nobody_else_goes_for_what_is_on_its_way():
    story = Story(
        on_gpu("x", 6), on_gpu("w", 2), on_gpu("y", 8), models_max=0, returning_seconds=5.0
    )
    read(story, used=0)
    story.idle(1, "w")
    story.idle(2, "x")
    read(story, used=8)
    assert story.ask(3, "y") == [AskExit(2, Reason.EVICTED, "y")]

    assert story.exit(2) == []
    assert story.of("w").state == "loaded"


def test_what_is_on_its_way_is_nobody_elses_use():
    """Counted as such, the next reading would say that the machine is full."""
    story = evicting()
    read(story, used=8)
    story.cancel(2)

    assert codes(story.ask(3, "y")) == {}
    assert started(read(story, used=0)) == ["y"]


def test_a_start_up_load_is_not_skipped_while_something_returns():
    story = Story(on_gpu("x", 8), on_gpu("y", 8), models_max=0, returning_seconds=5.0)
    read(story, used=0)
    story.idle(1, "x")
    read(story, used=8)
    story.exit(1)

    assert story.ask(2, "y", Kind.STARTUP) == []
    assert started(read(story, used=0)) == ["y"]


def waiting_for_returns(*small: int, lists: bool = True) -> Story:
    """Of ten bytes y is to have eight: six return from x, and four are free."""
    told = {"foreign": 0} if lists else {}
    presets = [on_gpu(f"s{size}", size) for size in small]
    story = Story(on_gpu("x", 6), on_gpu("y", 8), *presets, models_max=0, returning_seconds=5.0)
    read(story, used=0, **told)
    story.idle(1, "x")
    read(story, used=6, **told)
    story.ask(2, "y")
    assert story.exit(1) == []
    return story


def test_a_small_one_does_not_wait_for_what_returns_for_the_head():
    story = waiting_for_returns(2)

    assert started(story.ask(3, "s2")) == ["s2"]
    assert started(read(story, used=0, foreign=0)) == ["y"]


def test_what_it_may_have_taken_meanwhile_counts_as_not_back_for_those_seconds_at_most():
    story = waiting_for_returns(2)
    exited_at = story.now
    story.ask(3, "s2")

    assert started(read(story, used=2, foreign=0)) == []
    assert [at for at, _ in story.through(exited_at + 10)] == [exited_at + 5.0]


def test_where_that_could_not_be_told_from_what_returns_the_small_one_waits():
    story = waiting_for_returns(2, lists=False)

    assert started(story.ask(3, "s2")) == []
    assert started(read(story, used=0)) == ["y"]


def test_the_head_keeps_what_it_needs_beside_what_returns():
    assert started(waiting_for_returns(3).ask(3, "s3")) == []


def test_what_is_not_back_yet_is_not_given_out_to_a_small_one_either():
    story = Story(on_gpu("x", 8), on_gpu("y", 5), on_gpu("s", 3), models_max=0, returning_seconds=5)
    read(story, used=0, foreign=0)
    story.idle(1, "x")
    read(story, used=8, foreign=0)
    story.ask(2, "y")
    story.exit(1)

    assert started(story.ask(3, "s")) == []
    assert started(read(story, used=0, foreign=0)) == ["y"]
