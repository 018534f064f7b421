"""The imagined machine and its clients, with a policy that does as it is told."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scheduler.core.decisions import AskExit, Decision, Grant, Kill, Reason, Reject, Start
from scheduler.core.events import (
    Abandoned,
    Cancelled,
    DevicesRead,
    Event,
    Exited,
    LoadingReported,
    PresetsChanged,
    ReadyReported,
    Released,
    Requested,
    Ticked,
)
from scheduler.core.sizes import DeviceId
from scheduler.core.values import Code, InstanceId, PresetName, PresetSpec, Refusal, TenantId
from scheduler.simulating.simulation import ImpossibleDecision, Simulation
from scheduler.simulating.workload import (
    Arrival,
    Client,
    SimulatedModel,
    SimulatedTenant,
    Trace,
    no_arrivals,
)
from tests.unit.core.memory import sized

A = PresetName("a")
GPU = DeviceId("gpu0")


class Greedy:
    """Starts each model once, when it is first asked for, and grants whatever it can."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, Event]] = []
        self.instances: dict[PresetName, InstanceId] = {}
        self.ready: set[InstanceId] = set()
        self.waiting: list[Requested] = []
        self.presets: dict[PresetName, PresetSpec] = {}

    def handle(self, event: Event, now: float) -> list[Decision]:
        self.heard.append((now, event))
        match event:
            case PresetsChanged(presets):
                self.presets = {spec.name: spec for spec in presets}
            case Requested():
                self.waiting.append(event)
                if event.preset not in self.instances:
                    instance = self.instances[event.preset] = InstanceId(len(self.instances) + 1)
                    return [Start(instance, self.presets[event.preset], Reason.REQUESTED)]
            case ReadyReported(instance):
                self.ready.add(instance)
            case Cancelled(request):
                self.waiting = [asked for asked in self.waiting if asked.request != request]
            case _:
                pass
        return self.grants()

    def grants(self) -> list[Decision]:
        ready = [asked for asked in self.waiting if self.instances[asked.preset] in self.ready]
        self.waiting = [asked for asked in self.waiting if asked not in ready]
        return [Grant(asked.request, self.instances[asked.preset]) for asked in ready]

    def times_of(self, kind: type) -> list[float]:
        return [when for when, event in self.heard if isinstance(event, kind)]


def model(name: PresetName = A, *, parallel: int = 1, load: float = 10.0, **more) -> SimulatedModel:
    spec = PresetSpec(name, parallel=parallel, fixed=sized(more.pop("need", ())))
    speeds = {"read_speed": 100.0, "answer_speed": 10.0, "slowdown": 0.5}
    return SimulatedModel(spec, load, **{**speeds, **more})


def trace(*arrivals: Arrival, models=None, until: float = 1000.0, **more) -> Trace:
    tenants = (SimulatedTenant(TenantId("one")), SimulatedTenant(TenantId("two"), 2.0))
    return Trace(
        "t", "", models or (model(),), tenants, lambda: arrivals, until, **{"places": 1, **more}
    )


def run(policy, simulated: Trace):
    return Simulation(policy, simulated).run()


def test_a_request_waits_for_the_load_and_is_answered_after_its_tokens_time():
    policy = Greedy()

    figures = run(policy, trace(Arrival(5.0, A, read=100, answered=20)))

    assert policy.times_of(ReadyReported) == [15.0]
    assert policy.times_of(Released) == [15.0 + 1.0 + 2.0]
    assert (figures.asked, figures.served, figures.loads, figures.worst) == (1, 1, 1, 10.0)


def test_an_answer_takes_longer_with_more_slots_busy():
    policy = Greedy()
    two = [Arrival(0.0, A, answered=20), Arrival(0.0, A, answered=20)]

    run(policy, trace(*two, models=(model(parallel=2),)))

    assert policy.times_of(Released) == [12.0, 13.0]


def test_loads_side_by_side_share_the_disk():
    policy = Greedy()
    names = [PresetName("a"), PresetName("b")]
    two = tuple(model(name, load=10.0, start_seconds=2.0) for name in names)

    run(policy, trace(Arrival(0.0, names[0]), Arrival(4.0, names[1]), models=two))

    # a reads alone from 2 to 6, b joins; a has 4 left, which take 8; b has then 4 left, alone.
    assert policy.times_of(ReadyReported) == [pytest.approx(14.0), pytest.approx(18.0)]


def test_what_is_granted_beyond_the_slots_waits_in_the_child():
    policy = Greedy()

    figures = run(policy, trace(*[Arrival(0.0, A, answered=20)] * 3))

    assert policy.times_of(Released) == [12.0, 14.0, 16.0]
    assert figures.worst == 14.0


def test_released_says_how_many_tokens():
    policy = Greedy()

    run(policy, trace(Arrival(0.0, A, read=30, answered=20)))

    assert [event.tokens for _, event in policy.heard if isinstance(event, Released)] == [50]


def test_a_client_without_patience_leaves_the_queue():
    policy = Greedy()

    figures = run(policy, trace(Arrival(0.0, A, patience=4.0)))

    assert policy.times_of(Cancelled) == [4.0]
    assert (figures.served, figures.gave_up, figures.worst) == (0, 1, 4.0)


def test_a_client_without_patience_leaves_the_childs_own_line():
    policy = Greedy()
    asked = Arrival(0.0, A, answered=100), Arrival(0.0, A, patience=12.0)

    figures = run(policy, trace(*asked))

    assert policy.times_of(Released) == [12.0, 20.0]
    assert (figures.served, figures.gave_up) == (1, 1)


def test_patience_is_at_an_end_when_the_answer_has_begun():
    figures = run(Greedy(), trace(Arrival(0.0, A, answered=100, patience=11.0)))

    assert figures.served == 1


def test_a_stream_frees_its_slot_when_its_client_times_out():
    policy = Greedy()

    figures = run(policy, trace(Arrival(0.0, A, answered=100, limit=12.0)))

    assert policy.times_of(Released) == [12.0]
    assert (figures.timed_out, figures.served) == (1, 0)


def test_what_is_not_streamed_runs_on_and_nobody_reads_it():
    policy = Greedy()

    figures = run(policy, trace(Arrival(0.0, A, answered=100, limit=12.0, streamed=False)))

    assert policy.times_of(Abandoned) == [12.0]
    assert policy.times_of(Released) == [20.0]
    assert (figures.timed_out, figures.served) == (1, 0)


def test_a_load_that_fails_ends_before_it_is_done():
    policy = Greedy()

    figures = run(policy, trace(Arrival(0.0, A, patience=50.0), models=(model(failing=1.0),)))

    exits = [event.exit for _, event in policy.heard if isinstance(event, Exited)]
    assert [exit.code for exit in exits] == [1]
    assert figures.failed_loads == 1


def test_more_memory_than_there_is_ends_a_load():
    policy = Greedy()
    big = model(need=((GPU, 9),))

    figures = run(
        policy, trace(Arrival(0.0, A, patience=50.0), models=(big,), capacity=((GPU, 8),))
    )

    exits = [event.exit for _, event in policy.heard if isinstance(event, Exited)]
    assert [exit.out_of_memory for exit in exits] == [True]
    assert policy.times_of(DevicesRead) == [0.0]
    assert figures.failed_loads == 1


def test_a_crash_cuts_the_answers_under_way():
    figures = run(Greedy(), trace(Arrival(0.0, A, answered=9000), models=(model(crashes=360.0),)))

    assert (figures.cut, figures.served) == (1, 0)


def test_a_long_load_says_that_it_gets_on():
    policy = Greedy()

    run(policy, trace(Arrival(0.0, A), models=(model(load=150.0),)))

    progress = [event.progress for _, event in policy.heard if isinstance(event, LoadingReported)]
    assert progress == [pytest.approx(0.4), pytest.approx(0.8)]


def test_clients_in_a_closed_loop_ask_again_when_they_have_been_answered():
    clients = (Client(A, read=0, answered=(10, 10)),) * 2
    even = model(parallel=2, slowdown=0.0)

    figures = run(Greedy(), trace(models=(even,), clients=clients, until=20.0))

    assert (figures.asked, figures.served) == (22, 20)
    assert figures.busy_share == pytest.approx(0.5)


def test_who_still_waits_at_the_end_counts_with_what_it_has_waited():
    figures = run(Greedy(), trace(Arrival(95.0, A), until=100.0))

    assert (figures.still_waiting, figures.worst, figures.seconds) == (1, 5.0, 100.0)


def test_the_policy_hears_something_every_second():
    policy = Greedy()

    run(policy, trace(Arrival(0.5, A), Arrival(7.25, A)))

    heard = [when for when, _ in policy.heard]
    assert max(later - earlier for earlier, later in pairwise(heard)) <= 1.0
    assert policy.times_of(Ticked)


def test_tokens_over_weight_are_compared():
    arrivals = Arrival(0.0, A, 0, answered=10), Arrival(0.0, A, 1, answered=20)

    assert run(Greedy(), trace(*arrivals)).jain == 1.0


def test_a_refused_client_comes_back_when_it_was_told_to():
    class Refusing(Greedy):
        def handle(self, event: Event, now: float) -> list[Decision]:
            self.heard.append((now, event))
            if isinstance(event, Requested):
                return [Reject(event.request, Refusal(Code.QUEUE_FULL, 7.0))]
            return []

    policy = Refusing()
    figures = run(policy, trace(clients=(Client(A),), until=15.0))

    assert policy.times_of(Requested) == [0.0, 7.0, 14.0]
    assert figures.refused == {"queue_full": 3}
    assert figures.p50 == 0.0


@pytest.mark.parametrize("order", [AskExit, Kill])
def test_what_exits_gives_its_memory_back(order):
    class Leaving(Greedy):
        def handle(self, event: Event, now: float) -> list[Decision]:
            decisions = super().handle(event, now)
            if isinstance(event, Released):
                decisions.append(order(InstanceId(event.request), Reason.EVICTED))
            return decisions

    names = [PresetName("a"), PresetName("b")]
    models = tuple(model(name, need=((GPU, 5),)) for name in names)
    arrivals = [Arrival(50.0 * number, name) for number, name in enumerate(names)]

    figures = run(Leaving(), trace(*arrivals, models=models, capacity=((GPU, 8),)))

    assert (figures.served, figures.failed_loads, figures.evictions) == (2, 0, 2)


def test_a_child_that_loads_reads_only_then_that_it_shall_exit():
    class Changing(Greedy):
        def handle(self, event: Event, now: float) -> list[Decision]:
            decisions = super().handle(event, now)
            if isinstance(event, Cancelled):
                decisions.append(AskExit(InstanceId(1), Reason.UNWANTED))
            return decisions

    policy = Changing()
    later = Arrival(50.0, PresetName("b"))
    two = model(), model(later.preset)
    run(policy, trace(Arrival(0.0, A, patience=3.0), later, models=two))

    assert policy.times_of(Exited) == [10.5]


def test_a_grant_on_a_child_that_is_not_ready_is_a_fault_of_the_policy():
    class Hasty(Greedy):
        def grants(self) -> list[Decision]:
            return [Grant(asked.request, self.instances[asked.preset]) for asked in self.waiting]

    with pytest.raises(ImpossibleDecision):
        run(Hasty(), trace(Arrival(0.0, A)))


def test_a_trace_without_requests_ends():
    assert run(Greedy(), trace(until=5.0)).asked == 0
    assert list(no_arrivals()) == []
