"""What the core is told of the registry, and what is kept when that is read anew."""

from __future__ import annotations

from dataclasses import replace

from models_registry.groups import GroupRules
from scheduler.core.sharing import Sharing
from scheduler.core.sizes import HOST, FixedShape, Need
from scheduler.runtime.figures import KnownShape
from scheduler.runtime.offer import Offer

from .standing_in import preset

SHAPE = FixedShape(((0, Need(((HOST, 7),))),))


def unknown(spec):
    return None


def offer(*specs, **fields):
    return replace(Offer.of(1, specs, 10.0), **fields)


def load_seconds(of):
    return {spec.name: spec.load_seconds for spec in of.preset_specs(unknown)}


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
    (told,) = offer(broken).after(before).preset_specs(unknown)

    assert told.fingerprint == preset("a").fingerprint
    assert told.priority.name == "LOW"


def told_with(known, **fields):
    (told,) = offer(preset("a", **fields)).preset_specs(lambda spec: known)
    return told


def test_what_it_takes_is_told_as_measured_or_as_estimated():
    measured = told_with(KnownShape(SHAPE))
    estimated = told_with(KnownShape(SHAPE, estimated=True))

    assert (measured.fixed, measured.estimated) == (SHAPE, False)
    assert (estimated.fixed, estimated.estimated) == (SHAPE, True)


def test_it_is_being_measured_while_nothing_but_a_pending_estimate_is_known():
    pending = KnownShape(SHAPE, estimated=True, pending=True)
    settled = KnownShape(SHAPE, estimated=True)

    assert told_with(None, memory_fingerprint="f").measuring
    assert told_with(pending, memory_fingerprint="f").measuring
    assert not told_with(settled, memory_fingerprint="f").measuring


def test_what_cannot_be_measured_is_not_waited_for():
    assert not told_with(None, memory_fingerprint="").measuring


def test_the_core_hears_by_which_rules_a_group_shares_the_machine():
    (told,) = offer(preset("a", group=GroupRules("g", exclusive=True))).preset_specs(unknown)

    assert told.sharing == Sharing("g", exclusive=True)
