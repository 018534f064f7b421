"""Ways in which memory could be counted twice, kept from everybody, or taken for ever."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Reason
from scheduler.core.events import AllocationReported, DevicesRead, UnloadAsked
from scheduler.core.sizes import DeviceReading, FixedShape, Layer, Need, OpenShape
from scheduler.core.values import Code, Exit, Kind, PresetSpec, Priority

from .story import Story, preset, refused, started

GPU = "gpu"
OUT_OF_MEMORY = Exit(code=1, out_of_memory=True)


def read(story: Story, total: int, free: int, foreign: int = 0, **other: int):
    devices = [DeviceReading(GPU, total=total, free=free, foreign=foreign)]
    devices += [DeviceReading(name, total=size, free=size) for name, size in other.items()]
    return story.tell(DevicesRead(tuple(devices)))


def needs(name: str, size: int, **options) -> PresetSpec:
    return preset(name, need=((GPU, size),), **options)


def test_what_an_estimate_lacked_is_not_added_to_the_measurement():
    story = Story(needs("a", 60, estimated=True), models_max=0)
    story.devices(gpu=90)
    story.idle(1, "a")
    story.tell(AllocationReported(1, Need(((GPU, 80),))))

    story.edit(preset("a", fixed=FixedShape(((0, Need(((GPU, 80),))),))))
    story.tell(AllocationReported(1, Need(((GPU, 80),))))
    story.tell(UnloadAsked("a"))
    story.exit(1)

    assert started(story.ask(2, "a")) == ["a"]


def test_room_that_is_not_enough_any_more_is_not_kept_from_the_head():
    story = Story(*(needs(n, size) for n, size in (("x", 60), ("y", 40), ("a", 60), ("b", 60))))
    read(story, 100, 100)
    story.idle(1, "y")
    story.idle(2, "x")
    (asked,) = story.ask(3, "a")
    story.ask(4, "b", priority=Priority.HIGH)
    read(story, 100, 0, foreign=5)
    story.exit(asked.instance)

    read(story, 100, 55, foreign=5)

    going = [i.preset.name for i in story.planner.instances.values() if i.leaving]
    assert going == ["y"]


def test_who_waits_for_other_programs_keeps_no_room_from_anybody():
    story = Story(*(needs(n, size) for n, size in (("x", 60), ("p", 30), ("a", 60), ("c", 10))))
    read(story, 100, 100)
    story.busy(1, "p")
    story.idle(2, "x")
    (asked,) = story.ask(3, "a")
    assert asked == AskExit(2, Reason.EVICTED, "a")
    read(story, 100, 0, foreign=45)
    story.exit(2)
    read(story, 100, 25, foreign=45)

    assert started(story.ask(5, "c")) == ["c"]


def test_who_runs_out_of_memory_again_and_again_evicts_nobody_any_more():
    story = Story(needs("a", 5), needs("b", 5), models_max=2, broken_after=1)
    story.devices(gpu=10)
    story.ask(1, "a")
    for _ in range(3):
        story.exit(max(story.planner.instances), OUT_OF_MEMORY)
    story.wait(100)
    story.idle(2, "b")
    read(story, 8, 3)

    assert refused(story.ask(3, "a"))[3].code is Code.MODEL_BROKEN


def test_a_device_that_is_away_is_no_place():
    shape = OpenShape(
        contexts=(4096,),
        layers=(Layer(5, (1,)), Layer(1, (0,))),
        devices=("gpu9",),
        file="",
        mapped=(6, 1, 0),
        device_compute=(1,),
        host_compute=((0,), (1,)),
    )
    story = Story(preset("a", open=shape, fixed=None), models_max=0)
    read(story, 100, 100, Host=100)

    (start,) = story.ask(1, "a")

    assert start.grant.placement.kind == "host"


def test_a_person_who_loads_it_clears_what_is_believed_of_its_memory():
    story = Story(needs("a", 60), models_max=0)
    story.devices(gpu=90)
    story.idle(1, "a")
    story.tell(AllocationReported(1, Need(((GPU, 9000),))))
    story.tell(UnloadAsked("a"))
    story.exit(1)
    assert refused(story.ask(2, "a"))[2].code is Code.MODEL_TOO_LARGE

    assert started(story.ask(3, "a", Kind.LOAD)) == ["a"]
