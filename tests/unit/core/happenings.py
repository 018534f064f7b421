"""What may happen to a planner, sensible or not, drawn by a source of chance.

The source is `random.Random`, or hypothesis' own in its place, which can shrink what it drew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from scheduler.core.decisions import Decision
from scheduler.core.events import (
    Abandoned,
    AllocationReported,
    ApplyAsked,
    Cancelled,
    Detached,
    DevicesRead,
    Event,
    Exited,
    KeepWished,
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
from scheduler.core.sharing import NO_GROUP, Sharing
from scheduler.core.values import Config, Exit, Kind, PresetSpec, Priority, VictimPolicy

from .machine import Machine, a_shape
from .referee import Child, Referee

TENANTS = {"x": 1.0, "y": 1.0, "z": 3.0, "w": 0.5}
PARALLEL = {"one": 1, "two": 2}  # by fingerprint: an edit changes both
GROUPS = [
    Sharing("turns", one_at_a_time=True),
    Sharing("alone", exclusive=True),
    Sharing("strict", one_at_a_time=True, exclusive=True),
    Sharing("stays", persistent=True),
]
EXITS = [Exit(code=1), Exit(signal=9), Exit(code=1, out_of_memory=True)]


def any_config(chance: Random) -> Config:
    pick = chance.choice
    return Config(
        models_max=pick([1, 2, 3, 0]),
        models_max_loading=pick([1, 1, 2]),
        queue_limit=pick([10, 60, 400]),
        queue_limit_per_preset=pick([0, 0, 8]),
        queue_limit_per_tenant=pick([6, 400]),
        queue_wait_seconds=pick([30.0, 600.0]),
        detached_wait_seconds=pick([5.0, 60.0]),
        max_wait_seconds=pick([0.0, 5.0, 30.0]),
        quantum_seconds=pick([0.0, 5.0, 30.0]),
        min_residency_seconds=pick([0.0, 0.0, 4.0]),
        keep_alive_seconds=pick([None, None, 0.0, 20.0]),
        oversubscribe=pick([1.0, 1.0, 1.5, 2.0]),
        max_priority_jump_seconds=pick([0.0, 5.0, 60.0]),
        share_window_seconds=pick([10.0, 60.0]),
        look_seconds=pick([1.0, 10.0]),
        victim_policy=pick(sorted(VictimPolicy)),
        load_stall_seconds=pick([10.0, 300.0]),
        measure_wait_seconds=pick([0.0, 10.0]),
        returning_seconds=pick([0.0, 5.0]),
    )


class Happenings:
    def __init__(
        self,
        config: Config,
        chance: Random,
        *,
        names: str = "abcd",
        keeps_time: bool = True,
        grouped: bool = False,
    ) -> None:
        self.referee = Referee(config, keeps_time=keeps_time)
        self.chance = chance
        self.names = names
        self.groups = [NO_GROUP, *GROUPS] if grouped else [NO_GROUP]
        self.requests = 0
        self.machine = Machine(self.referee, chance)
        self.change_presets({name: self.spec(name) for name in names})
        if chance.random() < 0.5:
            self.devices_are_read()

    # Pieces -----------------------------------------------------------------------------

    @property
    def children(self) -> dict[int, Child]:
        return self.referee.children

    def tell(self, event: Event) -> list[Decision]:
        return self.referee.tell(event)

    def step(self) -> None:
        """A moment passes; now and then none."""
        self.referee.now += self.chance.choice([0.0, 0.01, 0.25, 1.0])

    def spec(self, name: str) -> PresetSpec:
        pick = self.chance.choice
        fingerprint = pick(sorted(PARALLEL))
        return PresetSpec(
            name,
            fingerprint,
            PARALLEL[fingerprint],
            pinned=pick([False, False, False, False, True]),
            stop_timeout_seconds=pick([10.0, 10.0, 0.0]),
            priority=pick(list(Priority)),
            max_wait_seconds=pick([None, None, 2.0]),
            min_residency_seconds=pick([None, None, 3.0]),
            keep_alive_seconds=pick([None, None, 0.0, 8.0]),
            queue_limit=pick([None, None, 5]),
            load_seconds=pick([None, 2.0, 40.0]),
            estimated=pick([False, False, False, True]),
            measuring=pick([False, False, False, False, True]),
            placement_now=pick([False, False, True]),
            replicas=pick([1, 1, 1, 2]),
            **a_shape(name, self.chance),
            **({"sharing": pick(self.groups)} if len(self.groups) > 1 else {}),
        )

    def child(self, test: Callable[[Child], bool] = lambda child: True) -> int | None:
        numbers = [number for number, child in self.children.items() if test(child)]
        return self.chance.choice(numbers) if numbers else None

    def one_of(self, requests) -> int | None:
        known = sorted(requests)
        return self.chance.choice(known) if known else None

    def leased(self) -> list[int]:
        return [request for child in self.children.values() for request in child.leases]

    # Requests -----------------------------------------------------------------------------

    def request_arrives(self) -> None:
        kinds = [Kind.POST] * 6 + [Kind.WEBSOCKET, Kind.LOAD, Kind.STARTUP, Kind.GET]
        self.ask(self.chance.choice(self.names), self.chance.choice(kinds))

    def ask(self, name: str, kind: Kind) -> list[Decision]:
        self.requests += 1
        tenant = self.chance.choice(sorted(TENANTS))
        age = self.chance.choice([0.0, 0.0, 0.0, 4.0, 30.0])
        priority = self.chance.choice(list(Priority))
        arrived = self.referee.now - age
        weight = TENANTS[tenant]
        return self.tell(Requested(self.requests, name, arrived, kind, tenant, weight, priority))

    def client_gives_up_waiting(self) -> None:
        request = self.one_of(self.referee.waiting)
        if request is not None:
            self.tell(self.chance.choice([Cancelled, Cancelled, Abandoned])(request))

    def client_of_a_waiter_loses_its_connection(self) -> None:
        request = self.one_of(self.referee.waiting)
        if request is not None:
            self.tell(Detached(request))

    def request_is_answered(self) -> None:
        request = self.one_of(self.referee.granted)
        if request is not None:
            tokens = self.chance.choice([None, 0, 20, 900])
            ended = [Released(request, tokens), Released(request, tokens), Cancelled(request)]
            self.tell(self.chance.choice(ended))

    def client_leaves_the_child_at_work(self) -> None:
        request = self.one_of(self.leased())
        if request is not None:
            self.tell(Abandoned(request))

    def slots_are_read(self) -> None:
        number = self.child()
        if number is not None:
            child = self.children[number]
            ended = self.chance.randint(0, len(child.unread))
            self.tell(SlotsSeen(number, len(child.leases) - ended))

    def streams_are_left_unread_or_read(self) -> None:
        number = self.child()
        if number is not None:
            self.tell(StreamsHeld(number, self.chance.random() < 0.7))

    # Children -----------------------------------------------------------------------------

    def child_loads(self) -> None:
        number = self.child(lambda child: child.mood == "loading")
        if number is not None:
            progress = self.chance.choice(["done", "done", None, 0.0, 0.5, 1.0])
            done = progress == "done"
            self.tell(ReadyReported(number) if done else LoadingReported(number, progress))

    def child_falls_asleep(self) -> None:
        number = self.child(lambda child: child.mood != "sleeping")
        if number is not None:
            self.tell(SleepingReported(number))

    def child_wakes_by_itself(self) -> None:
        number = self.child(lambda child: child.mood == "sleeping")
        if number is not None:
            self.tell(LoadingReported(number))

    def stopped_child_exits(self) -> None:
        number = self.child(lambda child: child.going)
        if number is not None:
            self.tell(Exited(number, Exit(code=0)))

    def child_dies(self) -> None:
        number = self.child()
        if number is not None:
            self.tell(Exited(number, self.chance.choice(EXITS)))

    def child_hangs(self) -> None:
        number = self.child()
        if number is not None:
            self.tell(Silent(number))

    # People and time ------------------------------------------------------------------------

    def change_presets(self, presets: dict[str, PresetSpec], renamed=()) -> None:
        self.tell(PresetsChanged(tuple(presets.values()), renamed))

    def preset_is_edited(self) -> None:
        name = self.chance.choice(self.names)
        presets = dict(self.referee.presets)
        what = self.chance.choice(["save", "pin", "pin", "delete", "name"])
        if what == "save" or name not in presets:
            presets[name] = self.spec(name)
        elif what == "pin":
            presets[name] = replace(presets[name], pinned=not presets[name].pinned)
        elif what == "delete":
            del presets[name]
        else:
            target = self.chance.choice([other for other in self.names if other != name])
            old = presets.pop(name)
            presets.setdefault(target, replace(old, name=target))
            self.change_presets(presets, ((name, target),))
            return
        self.change_presets(presets)

    def devices_are_read(self) -> None:
        self.machine.changes()
        self.tell(DevicesRead(self.machine.readings()))

    def child_says_what_it_took(self) -> None:
        number = self.child(lambda child: child.mood != "loading" or self.chance.random() < 0.5)
        if number is not None:
            self.tell(AllocationReported(number, self.machine.allocated(number)))

    def person_unloads(self) -> None:
        self.tell(UnloadAsked(self.chance.choice(self.names), self.chance.random() < 0.3))

    def person_applies_an_edit(self) -> None:
        self.tell(ApplyAsked(self.chance.choice(self.names)))

    def tenant_wishes(self) -> None:
        wish = self.chance.choice([-1.0, 0.0, 0.0, 2.0, 15.0, 1000.0])
        tenant = self.chance.choice(sorted(TENANTS))
        self.tell(KeepWished(self.chance.choice(self.names), tenant, wish))

    def time_passes(self) -> None:
        self.referee.now += self.chance.choice([0.0, 0.5, 1.0, 3.0, 12.0, 31.0, 700.0])
        self.tell(Ticked())

    def timer_rings(self) -> None:
        timer = self.referee.timer
        if timer is not None and timer > self.referee.now:
            self.referee.now = timer
        self.tell(Ticked())

    def something_comes_late_or_twice(self) -> None:
        referee, living = self.referee, sorted(self.children)
        any_one = self.chance.choice(living) if living else 0
        ended = self.chance.randint(0, self.requests + 1)
        known = ended in referee.waiting or ended in referee.granted
        waiting = self.one_of(referee.waiting)
        events: list[Event] = [
            Exited(any_one + 1000),
            ReadyReported(any_one + 1000),
            SleepingReported(any_one + 1000),
            LoadingReported(any_one + 1000, 0.5),
            Silent(any_one + 1000),
            SlotsSeen(any_one + 1000, 0),
            ReadyReported(any_one),
            LoadingReported(any_one, 2.0),
            SleepingReported(any_one),
            UnloadAsked("nobody"),
            ApplyAsked("nobody"),
        ]
        if not known:
            events += [Released(ended, 5), Abandoned(ended), Cancelled(ended), Detached(ended)]
            events += [StreamsHeld(any_one + 1000, True)]
        if waiting is not None:
            asked = referee.waiting[waiting]
            events += [Requested(waiting, asked.preset, referee.now, asked.kind)]
        self.tell(self.chance.choice(events))

    def shutdown_is_asked(self) -> None:
        self.tell(ShutdownAsked())

    # The end ----------------------------------------------------------------------------------

    def everyone_is_answered_once_the_world_cooperates(self) -> None:
        """Children load, answer and exit as they should, and time passes: nobody is left."""
        referee = self.referee
        for _ in range(20 * len(referee.waiting) + 2000):
            self.cooperate()
            if not referee.waiting:
                break
        assert not referee.waiting, f"starved: {referee.waiting}"
        assert not referee.planner.entries(referee.now)

    def cooperate(self) -> None:
        referee = self.referee
        referee.now += 0.01
        if (number := self.child(lambda c: c.going)) is not None:
            self.tell(Exited(number, Exit(code=0)))
        elif (number := self.child(lambda c: c.mood == "loading")) is not None:
            self.tell(ReadyReported(number))
        elif leased := self.leased():
            self.tell(Released(leased[0], 10))
        else:
            self.timer_rings()


ALWAYS: tuple[tuple[Callable[[Happenings], None], int], ...] = (
    (Happenings.request_arrives, 30),
    (Happenings.client_gives_up_waiting, 5),
    (Happenings.client_of_a_waiter_loses_its_connection, 4),
    (Happenings.request_is_answered, 16),
    (Happenings.streams_are_left_unread_or_read, 2),
    (Happenings.client_leaves_the_child_at_work, 3),
    (Happenings.slots_are_read, 3),
    (Happenings.child_loads, 20),
    (Happenings.child_falls_asleep, 2),
    (Happenings.child_wakes_by_itself, 1),
    (Happenings.stopped_child_exits, 14),
    (Happenings.child_dies, 1),
    (Happenings.child_hangs, 1),
    (Happenings.preset_is_edited, 2),
    (Happenings.devices_are_read, 6),
    (Happenings.child_says_what_it_took, 3),
    (Happenings.person_unloads, 1),
    (Happenings.person_applies_an_edit, 1),
    (Happenings.time_passes, 6),
    (Happenings.timer_rings, 5),
    (Happenings.something_comes_late_or_twice, 4),
)
"""What may happen, and how often it does."""
