"""L1: a file that several map is in memory once, and frees nothing while one still does."""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Reason
from scheduler.core.sizes import HOST, FixedShape, Need

from .story import CLEAN, Story, codes, preset, started


def mapping(name: str, own: int, maps: int, file: str = "shared.gguf", **options):
    """So much of the host for itself, and so much of a file."""
    need = Need(((HOST, own),), ((file, maps),))
    return preset(name, fixed=FixedShape(((0, need),)), **options)


def machine(*presets, host: int, idle: str = "") -> Story:
    story = Story(*presets, models_max=0)
    story.devices(**{HOST: host})
    for request, name in enumerate(idle, start=100):
        story.idle(request, name)
    return story


def victims(decisions) -> list[int]:
    assert all(d.reason is Reason.EVICTED for d in decisions if isinstance(d, AskExit))
    return [d.instance for d in decisions if isinstance(d, AskExit)]


def test_a_second_preset_of_the_same_file_needs_only_what_is_its_own():
    story = machine(mapping("a", 2, 8), mapping("b", 2, 8), host=12, idle="a")

    assert started(story.ask(1, "b")) == ["b"]


def test_one_of_another_file_needs_all_of_it():
    story = machine(mapping("a", 2, 8), mapping("b", 2, 8, "other.gguf"), host=12, idle="a")

    assert victims(story.ask(1, "b")) == [1]


def test_one_that_maps_more_of_it_needs_the_rest():
    presets = mapping("a", 2, 5), mapping("b", 2, 8)

    assert started(machine(*presets, host=12, idle="a").ask(1, "b")) == ["b"]
    assert victims(machine(*presets, host=11, idle="a").ask(1, "b")) == [1]


def test_where_two_map_a_file_evicting_one_frees_only_its_own():
    """The file stays for the other: both must go."""
    presets = mapping("a", 2, 8), mapping("b", 2, 8), mapping("c", 8, 0)
    story = machine(*presets, host=12, idle="ab")

    assert victims(story.ask(1, "c")) == [1, 2]


def test_one_that_holds_nothing_of_its_own_is_no_victim_while_another_maps_its_file():
    presets = mapping("a", 0, 8), mapping("b", 1, 8, pinned=True), mapping("c", 3, 0)
    other = mapping("d", 2, 0)
    story = machine(*presets, other, host=12, idle="abd")

    assert victims(story.ask(1, "c")) == [3]


def test_a_file_that_a_pinned_one_maps_makes_room_for_others_of_it():
    story = machine(mapping("p", 2, 8, pinned=True), mapping("a", 2, 8), host=12, idle="p")

    assert codes(story.ask(1, "a")) == {}
    assert story.of("a").state == "loading"


def test_the_file_is_free_with_the_last_that_maps_it():
    presets = mapping("a", 2, 8), mapping("b", 2, 8), mapping("c", 9, 0)
    story = machine(*presets, host=12, idle="ab")
    story.exit(1, CLEAN)

    assert victims(story.ask(1, "c")) == [2]
    assert started(story.exit(2, CLEAN)) == ["c"]
