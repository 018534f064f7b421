"""What the core is told of the registry, and what is kept when that is read anew."""

from __future__ import annotations

from dataclasses import replace

from scheduler.runtime.offer import Offer

from .standing_in import preset


def offer(*specs, **fields):
    return replace(Offer.of(1, specs, 10.0), **fields)


def load_seconds(of):
    return {spec.name: spec.load_seconds for spec in of.preset_specs()}


def test_the_core_hears_how_long_loads_took_as_far_as_that_is_known():
    known = offer(preset("a"), preset("b"), load_seconds={"a": 4.5})

    assert load_seconds(known) == {"a": 4.5, "b": None}


def test_how_long_loads_took_outlives_a_reading_of_the_registry():
    before = offer(preset("a"), load_seconds={"a": 4.5})

    after = offer(preset("a"), preset("b")).after(before)

    assert load_seconds(after) == {"a": 4.5, "b": None}


def test_a_preset_that_is_gone_leaves_no_load_times_behind():
    before = offer(preset("a"), preset("b"), load_seconds={"a": 4.5, "b": 2.0})

    after = offer(preset("b")).after(before)

    assert after.load_seconds == {"b": 2.0}


def test_a_preset_that_breaks_has_its_new_policy_at_once():
    before = offer(preset("a"))

    broken = preset("a", problem="no such option", priority="low", fingerprint="other")
    (told,) = offer(broken).after(before).preset_specs()

    assert told.fingerprint == preset("a").fingerprint
    assert told.priority.name == "LOW"
