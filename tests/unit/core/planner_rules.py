"""What may happen in the outside world of a planner, for Hypothesis to choose from."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from scheduler.core.events import (
    Abandoned,
    ApplyAsked,
    Cancelled,
    Exited,
    LoadingReported,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    ShutdownAsked,
    Silent,
    SleepingReported,
    SlotsSeen,
    StreamsHeld,
    Ticked,
    UnloadAsked,
)
from scheduler.core.values import Config, Exit, Kind, PresetSpec, VictimPolicy

from .outside import following
from .world import World

NAMES = "abcd"
PARALLEL = {"one": 1, "two": 2}  # by fingerprint: an edit changes both


def spec(name, fingerprint, pinned, patience, **times) -> PresetSpec:
    return PresetSpec(name, fingerprint, PARALLEL[fingerprint], pinned, patience, **times)


specs = st.builds(
    spec,
    name=st.sampled_from(NAMES),
    fingerprint=st.sampled_from(sorted(PARALLEL)),
    pinned=st.sampled_from([False] * 5 + [True]),
    patience=st.sampled_from([10.0, 10.0, 10.0, 0.0]),
    max_wait_seconds=st.sampled_from([None, None, 2.0]),
    min_residency_seconds=st.sampled_from([None, None, 1.0]),
    keep_alive_seconds=st.sampled_from([None] * 4 + [0.0, 5.0]),
    queue_limit=st.sampled_from([None, None, 3]),
)
configs = st.builds(
    Config,
    models_max=st.sampled_from([1, 2, 2, 2, 3, 0]),
    models_max_loading=st.sampled_from([1, 1, 2]),
    queue_limit=st.sampled_from([6, 50]),
    queue_limit_per_preset=st.sampled_from([0, 0, 4]),
    queue_wait_seconds=st.sampled_from([600.0, 30.0]),
    max_wait_seconds=st.sampled_from([5.0, 30.0, 0.0]),
    quantum_seconds=st.sampled_from([2.0, 30.0, 0.0]),
    min_residency_seconds=st.sampled_from([0.0, 0.0, 4.0]),
    keep_alive_seconds=st.sampled_from([None] * 4 + [0.0, 10.0]),
    oversubscribe=st.sampled_from([1.0, 1.0, 2.0]),
    load_stall_seconds=st.sampled_from([300.0, 300.0, 10.0]),
    victim_policy=st.sampled_from(VictimPolicy),
)
exits = st.sampled_from([Exit(code=1), Exit(signal=9), Exit(code=1, out_of_memory=True)])


class WhatHappens(RuleBasedStateMachine):
    @initialize(
        config=configs,
        some=st.tuples(specs, specs, specs, specs),
        used=st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=5),
    )
    def machine_boots(self, config, some, used):
        """Some models were used; others are in use, so that there is a crowd from the start."""
        self.world = World(config)
        self.next_request = 1
        self.edit({n: replace(s, name=n) for n, s in zip(NAMES, some, strict=True)})
        for name, still in used:
            self.world.now += 1
            self.ask(name)
            self.cooperate(releases=not still)

    def ask(self, preset, kind=Kind.POST, age=0.0):
        request, self.next_request = self.next_request, self.next_request + 1
        self.world.ask(request, preset, kind, self.world.now - age)

    def pick(self, data, choices):
        self.world.now += 0.25
        return self.choose(data, sorted(choices))

    def choose(self, data, options):
        return data.draw(st.sampled_from(options))

    def any_spec(self, data):
        return data.draw(specs)

    def some(self, test):
        return [number for number, child in self.world.children.items() if test(child)]

    def leased(self):
        return [request for child in self.world.children.values() for request in child.leases]

    def looks(self):
        return [request for child in self.world.children.values() for request in child.looks]

    def stale(self, child):
        return not self.world.runs_its_preset(child)

    def cooperate(self, *, releases=True):
        """Children load and exit as they should, and answer unless they shall go on."""
        world = self.world
        for _ in range(500):
            world.now += 0.01
            if going := self.some(lambda c: c.going):
                world.exit(going[0], Exit(code=0))
            elif loading := self.some(lambda c: c.mood == "loading" and c.staying):
                world.ready(loading[0])
            elif not releases:
                break
            elif leased := self.leased():
                world.release(leased[0])
                world.tell(Released(leased[0]))
            elif world.waiting and world.timer is not None and world.timer > world.now:
                world.now = world.timer
                world.tell(Ticked())
            else:
                break

    def any_child(self):
        return bool(self.world.children)

    # Requests -----------------------------------------------------------------

    @rule(
        data=st.data(),
        kind=st.sampled_from([Kind.POST] * 5 + [Kind.WEBSOCKET, Kind.LOAD, Kind.STARTUP, Kind.GET]),
        age=st.sampled_from([0.0, 0.0, 5.0, 20.0]),
    )
    def request_arrives(self, data, kind, age):
        self.ask(self.pick(data, NAMES), kind, age)

    @precondition(lambda self: self.world.waiting)
    @rule(data=st.data(), how=st.sampled_from([Cancelled, Abandoned]))
    def client_gives_up_waiting(self, data, how):
        request = self.pick(data, self.world.waiting)
        del self.world.waiting[request]
        self.world.tell(how(request))

    @precondition(lambda self: self.leased())
    @rule(data=st.data(), how=st.sampled_from([Released, Released, Cancelled]))
    def request_is_answered(self, data, how):
        request = self.pick(data, self.leased())
        self.world.release(request)
        self.world.tell(how(request))

    @precondition(lambda self: self.looks())
    @rule(data=st.data(), how=st.sampled_from([Released, Cancelled]))
    def look_ends(self, data, how):
        request = self.pick(data, self.looks())
        for child in self.world.children.values():
            child.looks.pop(request, None)
        self.world.tell(how(request))

    @precondition(lambda self: self.leased())
    @rule(data=st.data())
    def client_leaves_the_child_at_work(self, data):
        request = self.pick(data, self.leased())
        self.world.holder(request).unread.add(request)
        self.world.tell(Abandoned(request))

    @precondition(lambda self: self.some(lambda c: len(c.unread) > c.finished_unread))
    @rule(data=st.data())
    def child_finishes_an_unread_answer(self, data):
        unseen = self.some(lambda c: len(c.unread) > c.finished_unread)
        number = self.choose(data, unseen)
        self.world.children[number].finished_unread += 1

    @precondition(any_child)
    @rule(data=st.data())
    def slots_are_read(self, data):
        number = self.pick(data, self.world.children)
        child = self.world.children[number]
        busy = len(child.leases) - child.finished_unread
        for request in sorted(child.unread)[: child.finished_unread]:
            self.world.release(request)
            self.world.idle.add(request)
        child.finished_unread = 0
        self.world.tell(SlotsSeen(number, busy))
        assert not self.world.idle, "a lease outlived its work"

    @precondition(any_child)
    @rule(data=st.data(), unread=st.booleans())
    def streams_are_left_unread_or_read(self, data, unread):
        number = self.pick(data, self.world.children)
        self.world.children[number].holds_unread = unread
        self.world.tell(StreamsHeld(number, unread))

    # Children -----------------------------------------------------------------

    @precondition(lambda self: self.some(lambda c: c.mood == "loading"))
    @rule(data=st.data(), progress=st.sampled_from(["done", "done", None, 0.0, 0.5, 1.0]))
    def child_loads(self, data, progress):
        number = self.pick(data, self.some(lambda c: c.mood == "loading"))
        if progress == "done":
            self.world.ready(number)
        else:
            self.world.get_on(number, progress)

    @precondition(lambda self: self.some(lambda c: c.mood != "sleeping"))
    @rule(data=st.data())
    def child_falls_asleep(self, data):
        self.world.fall_asleep(self.pick(data, self.some(lambda c: c.mood != "sleeping")))

    @precondition(lambda self: self.some(lambda c: c.mood == "sleeping"))
    @rule(data=st.data())
    def child_wakes_by_itself(self, data):
        self.world.wake_by_itself(self.pick(data, self.some(lambda c: c.mood == "sleeping")))

    @precondition(lambda self: self.some(lambda c: c.going))
    @rule(data=st.data())
    def stopped_child_exits(self, data):
        self.world.exit(self.pick(data, self.some(lambda c: c.going)), Exit(code=0))

    @precondition(any_child)
    @rule(data=st.data(), exit=exits)
    def child_dies(self, data, exit):
        self.world.exit(self.pick(data, self.world.children), exit)

    @precondition(lambda self: self.some(lambda c: c.has_loaded))
    @rule(data=st.data())
    def child_hangs(self, data):
        self.world.hang(self.pick(data, self.some(lambda c: c.has_loaded)))

    # People and time ----------------------------------------------------------

    def edit(self, presets, renamed=()):
        world = self.world
        for name, target in renamed:
            asks = [ask for ask in world.waiting.values() if ask.preset == name]
            for ask in asks:
                ask.preset = target
            if asks:
                world.clear_failures(target)
        for name, old in world.presets.items():
            if (new := presets.get(name)) is None or new.fingerprint != old.fingerprint:
                world.clear_failures(name)
                world.has_loaded.discard(name)
        for old, new in renamed:
            times = [*world.asked.pop(old, ()), *world.asked.get(new, ())]
            world.asked[new] = sorted(times)
            if (since := world.head.pop(old, None)) is not None:
                world.head[new] = since.earlier_of(world.head.get(new))
        world.asked = {name: times for name, times in world.asked.items() if name in presets}
        world.presets = presets
        for child in world.children.values():
            if (edited := presets.get(child.spec.name)) is not None:
                child.spec = following(child.spec, edited)
        world.tell(PresetsChanged(tuple(presets.values()), renamed))

    @rule(data=st.data(), what=st.sampled_from(["save", "pin", "pin", "delete", "name"]))
    def preset_is_edited(self, data, what):
        name = self.pick(data, NAMES)
        presets = dict(self.world.presets)
        if what == "save" or name not in presets:
            presets[name] = replace(self.any_spec(data), name=name)
        elif what == "pin":
            presets[name] = replace(presets[name], pinned=not presets[name].pinned)
        elif what == "name":
            self.rename(presets, name, self.pick(data, set(NAMES) - {name}))
            return
        else:
            del presets[name]
        self.edit(presets)

    def rename(self, presets, name, target):
        """To a free name, or so that the old one leads to a preset that is there."""
        old = presets.pop(name)
        presets.setdefault(target, replace(old, name=target))
        self.edit(presets, ((name, target),))

    @rule(data=st.data(), force=st.booleans())
    def person_unloads(self, data, force):
        preset = self.pick(data, NAMES)
        self.world.unloading, self.world.forcing = True, force
        self.world.tell(UnloadAsked(preset, force))
        self.world.unloading = self.world.forcing = False
        assert not self.some(lambda c: c.spec.name == preset and c.staying and c.mood != "loading")

    @rule(data=st.data())
    def person_applies_an_edit(self, data):
        preset = self.pick(data, NAMES)
        self.world.tell(ApplyAsked(preset))
        assert not self.some(lambda c: c.spec.name == preset and c.staying and self.stale(c))

    @rule(seconds=st.sampled_from([None, None, 0.5, 3.0, 12.0, 31.0]))
    def time_passes(self, seconds):
        """To the timer that was set, or by so many seconds."""
        timer = self.world.timer or 0.0
        if seconds is None and timer > self.world.now:
            self.world.now = timer
        else:
            self.world.now += seconds or 0.25
        self.world.tell(Ticked())

    @precondition(lambda self: self.next_request > 15 and not self.world.shut)
    @rule()
    def shutdown_is_asked(self):
        self.world.shut = True
        self.world.tell(ShutdownAsked())
        assert not self.world.waiting

    @rule(data=st.data())
    def something_comes_late_or_twice(self, data):
        known = sorted(self.world.waiting) or [1]
        living = sorted(self.world.children)
        live = {*known, *self.leased(), *self.looks()}
        stray = [request for request in range(1, self.next_request) if request not in live]
        events = [Exited(999), ReadyReported(999), SlotsSeen(999, 0), Released(999), Silent(999)]
        events += [Requested(known[0], "a", self.world.now)] if self.world.waiting else []
        events += [how(request) for request in stray for how in (Released, Abandoned)]
        events += [StreamsHeld(999, True)]
        events += [LoadingReported(n) for n in living if self.world.children[n].mood == "loaded"]
        events += [ReadyReported(n) for n in living if self.world.children[n].mood == "loaded"]
        events += [SleepingReported(n) for n in living if self.world.children[n].mood == "sleeping"]
        self.world.tell(self.choose(data, events))
