"""The scenarios whose point is memory (3, 8, 9, 16), whole: what is granted, and where."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Reason, Start
from scheduler.core.events import DevicesRead
from scheduler.core.sizes import HOST, ON_HOST, Kind
from scheduler.core.values import Exit
from scheduler.core.values import Kind as Asks

from .memory import listing, sized, stepped
from .shapes import A, model, whole
from .story import Story, codes, granted, preset, refused, started

RAN_OUT = Exit(code=1, out_of_memory=True, words="cudaMalloc failed")


def gpu(name: str, *sizes: int, **options):
    """So many GiB of the GPU at each context."""
    return preset(name, fixed=stepped(*sizes), **options)


def contexts(decisions) -> dict[str, int]:
    return {d.preset.name: d.grant.context for d in decisions if isinstance(d, Start)}


# 3: one goes, and the small one need not wait ---------------------------------------------


def crowded(models_max: int = 8) -> Story:
    """24 GiB: a holds 14 and is idle, b holds 8 and answers for ten minutes."""
    presets = gpu("a", 14), gpu("b", 8), gpu("c", 12, 14, 16), gpu("d", 2), "x"
    story = Story(*presets, models_max=models_max)
    story.devices(CUDA0=24)
    story.busy(1, "b")
    story.idle(2, "a")
    return story


def test_scenario_3_a_alone_goes_and_d_does_not_wait_for_c():
    story = crowded()
    a = story.of("a").id

    assert story.ask(3, "c") == [AskExit(a, Reason.EVICTED, "c")]
    assert started(story.ask(4, "d")) == ["d"]
    assert contexts(story.exit(a)) == {"c": 2048}
    assert story.leases("b") == {1}


def test_scenario_3_the_grant_of_c_leaves_the_minimum_of_d():
    """Which waits for a slot."""
    story = crowded(models_max=3)
    story.ask(3, "x")
    story.ready("x")
    story.ask(4, "c")
    assert story.ask(5, "d") == []

    assert contexts(story.exit(story.of("a").id)) == {"c": 2048}


def test_scenario_3_without_d_c_takes_all_there_is():
    story = crowded()
    story.ask(3, "c")

    assert contexts(story.exit(story.of("a").id)) == {"c": 4096}


# 8: nobody measures ------------------------------------------------------------------------


def test_scenario_8_after_measure_wait_the_guess_counts_and_the_gpu_comes_before_the_host():
    guessed = model(6, 6, mapped=(12, 6, 0))
    m = preset("m", open=guessed, estimated=True, measuring=True)
    story = Story(m, gpu("g", 14), gpu("x", 1), models_max=8)
    story.tell(DevicesRead((listing(A, 24), listing(HOST, 64))))
    g = story.idle(1, "g")
    assert story.ask(2, "m") == []
    asked_at = story.now
    assert started(story.ask(3, "x")) == ["x"]  # it holds nobody up
    story.ready("x")
    story.release(3)

    ((at, exit),) = story.through(asked_at + 10)

    assert (at, exit) == (asked_at + 10.0, AskExit(g, Reason.EVICTED, "m"))
    (start,) = story.exit(g)
    assert start.grant.placement == whole(A, 2)


def test_scenario_8_where_a_pinned_one_stays_on_the_gpu_it_takes_the_host():
    m = preset("m", open=model(6, 6, mapped=(12, 6, 0)), estimated=True)
    story = Story(m, gpu("g", 22, pinned=True), models_max=8)
    story.tell(DevicesRead((listing(A, 24), listing(HOST, 64))))
    story.idle(1, "g")

    (start,) = story.ask(2, "m")

    assert start.grant.placement == ON_HOST
    assert start.grant.placement.kind is Kind.HOST


# 9: out of memory ----------------------------------------------------------------------------


def test_scenario_9_three_loads_with_smaller_grants_then_it_is_told_and_backs_off():
    story = Story(gpu("m", 3, 5, 9), gpu("x", 1), models_max=8)
    story.devices(CUDA0=10)
    assert contexts(story.ask(1, "m")) == {"m": 4096}
    assert contexts(story.exit(1, RAN_OUT)) == {"m": 2048}
    assert contexts(story.exit(2, RAN_OUT)) == {"m": 1024}
    answer = story.exit(3, RAN_OUT)

    assert codes(answer) == {1: "out_of_memory"}
    assert refused(answer)[1].retry_after_seconds > 0
    assert codes(story.ask(2, "m", after=0.1)) == {2: "model_backing_off"}
    assert started(story.ask(3, "x")) == ["x"]


def test_scenario_9_a_reading_of_what_others_took_makes_the_next_try_smaller_still():
    story = Story(gpu("m", 3, 5, 9), models_max=8)
    story.tell(DevicesRead((listing(A, 10),)))
    assert contexts(story.ask(1, "m")) == {"m": 4096}
    story.tell(DevicesRead((listing(A, 10, others=6),)))

    assert contexts(story.exit(1, RAN_OUT)) == {"m": 1024}


def test_scenario_9_where_others_make_it_impossible_it_is_skipped_and_told_after_max_wait():
    story = Story(gpu("m", 3, 5, 9), gpu("x", 1), models_max=8, max_wait_seconds=30.0)
    story.tell(DevicesRead((listing(A, 10),)))
    story.ask(1, "m")
    story.tell(DevicesRead((listing(A, 10, others=8),)))
    assert story.exit(1, RAN_OUT) == []
    failed_at = story.now
    assert started(story.ask(2, "x")) == ["x"]
    assert granted(story.ready("x")) == [2]

    ((at, answer),) = story.through(failed_at + 60)

    assert at == failed_at + 30.0
    assert codes([answer]) == {1: "memory_in_use"}


# 16: start-up ----------------------------------------------------------------------------------


def booting(gpu_size: int, **config) -> tuple[Story, list[list]]:
    """Three presets that load on start-up."""
    presets = gpu("a", 4, 8, 20), gpu("b", 4, 8), gpu("c", 4)
    story = Story(*presets, models_max=8, **config)
    story.devices(CUDA0=gpu_size)
    return story, [story.ask(n, name, Asks.STARTUP) for n, name in enumerate("abc", start=1)]


def test_scenario_16_grants_leave_room_for_the_third_where_it_fits():
    story = Story("first", gpu("a", 4, 8, 20), gpu("b", 4, 8), gpu("c", 4), models_max=8)
    story.devices(CUDA0=16)
    story.ask(9, "first")
    for number, name in enumerate("abc", start=1):
        story.ask(number, name, Asks.STARTUP)

    assert contexts(story.ready("first")) == {"a": 2048}  # 16 less 4 and 4
    assert contexts(story.ready("a")) == {"b": 1024}
    assert contexts(story.ready("b")) == {"c": 1024}


def test_scenario_16_the_third_is_skipped_where_it_does_not_fit():
    story, answers = booting(11)
    assert [contexts(answer) for answer in answers] == [{"a": 2048}, {}, {}]

    # The first was alone in the queue when it started: what it took is its own.
    assert codes(story.ready("a")) == {2: "does_not_fit", 3: "does_not_fit"}


def test_scenario_16_it_is_not_skipped_while_memory_is_on_its_way_back():
    presets = gpu("old", 10), gpu("a", 4)
    story = Story(*presets, models_max=8, returning_seconds=5.0)
    story.tell(DevicesRead((listing(A, 10),)))
    old = story.idle(1, "old")
    story.edit(gpu("a", 4))
    assert story.ask(2, "a", Asks.STARTUP) == []  # stopping

    assert story.exit(old) == []  # returning
    assert started(story.tell(DevicesRead((listing(A, 10),)))) == ["a"]


def test_scenario_16_it_is_skipped_with_its_code_and_evicts_nobody():
    story = Story(gpu("x", 8), preset("c", fixed=sized(((A, 4),))), models_max=8)
    story.devices(CUDA0=10)
    story.idle(1, "x")

    assert codes(story.ask(2, "c", Asks.STARTUP)) == {2: "does_not_fit"}
    assert story.alive == ["x"]
