"""Every policy on small traces; and what the scheduler promises, in the simulator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.values import Config, PresetName, PresetSpec, TenantId
from scheduler.simulating.comparing import OURS, Result, compare, document
from scheduler.simulating.machine import answer_seconds
from scheduler.simulating.policies import POLICIES, RIVALS, make_policy
from scheduler.simulating.simulation import Simulation
from scheduler.simulating.traces import TRACES, Wish
from scheduler.simulating.workload import Arrival, Client, SimulatedModel, SimulatedTenant, Trace

CONFIG = Config()
SMALL = Wish(requests=150, seed=3)


def simulate(policy: str, trace: Trace, config: Config = CONFIG):
    return Simulation(make_policy(policy, trace, config), trace, sample_estimates=5).run()


@pytest.mark.parametrize("name", TRACES)
def test_every_request_ends_exactly_once_under_the_default_policy(name):
    figures = simulate(OURS, TRACES[name](SMALL))

    ended = figures.served + figures.gave_up + figures.timed_out + figures.cut
    answering = figures.asked - ended - sum(figures.refused.values()) - figures.still_waiting
    assert answering >= 0
    assert not answering or TRACES[name](SMALL).clients


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_figures(policy):
    trace = TRACES["faulty"](SMALL)

    assert simulate(policy, trace) == simulate(policy, trace)


@pytest.mark.parametrize("policy", POLICIES)
def test_who_is_patient_is_served_by_all_when_nothing_is_short(policy):
    trace = replace(TRACES["poisson"](SMALL), places=0)

    figures = simulate(policy, trace)

    assert (figures.served, figures.evictions) == (150, 0)


# Scenario 1: A never idle ---------------------------------------------------------------

A, B, C = (PresetName(name) for name in "abc")
LOADS = {A: 8.0, B: 5.0, C: 12.0}
EXIT = 1.0
SLOTS = 2
LONGEST_ANSWER = 400


def never_idle(*newcomers: Arrival, seconds: float = 2000.0) -> Trace:
    """One place; three clients keep A busy for ever."""
    models = tuple(
        SimulatedModel(PresetSpec(name, parallel=SLOTS), load, exit_seconds=EXIT)
        for name, load in LOADS.items()
    )
    tenants = (SimulatedTenant(TenantId("busy")), SimulatedTenant(TenantId("newcomer")))
    client = Client(A, answered=(50, LONGEST_ANSWER))
    return Trace(
        "never-idle", "", models, tenants, lambda: newcomers, until=seconds, places=1,
        clients=tuple(replace(client, begins=float(number)) for number in range(3)),
    )  # fmt: skip


def drain(trace: Trace) -> float:
    """The longest answer that may be under way, and the exit."""
    longest = Arrival(0.0, A, read=100, answered=LONGEST_ANSWER)
    return answer_seconds(trace.models[0], longest, SLOTS) + EXIT


NOW_AND_THEN = [
    Arrival(100.0 + 131.7 * number, B if number % 2 else C, 1, answered=80) for number in range(14)
]


@pytest.mark.parametrize("max_wait", [5.0, 30.0])
def test_beside_a_model_that_is_never_idle_nobody_waits_longer_than_max_wait_a_drain_and_a_load(
    max_wait,
):
    trace = never_idle(*NOW_AND_THEN)
    config = Config(max_wait_seconds=max_wait)

    figures = simulate(OURS, trace, config)

    for name in (B, C):
        assert figures.worst_of[name] <= max_wait + drain(trace) + LOADS[name]
    # A's own clients wait for a drain, the newcomer's load and answer, A's load, and a slot.
    newcomer = LOADS[C] + answer_seconds(trace.models[2], NOW_AND_THEN[0], 1) + EXIT
    assert figures.worst_of[A] <= drain(trace) + newcomer + LOADS[A] + drain(trace)
    assert figures.loads == 2 * len(NOW_AND_THEN) + 1


def test_the_second_newcomer_waits_for_the_first_one_as_well():
    asked = Arrival(100.0, B, 1, answered=80), Arrival(101.0, C, 1, answered=80)
    trace = never_idle(*asked)

    figures = simulate(OURS, trace)

    first = CONFIG.max_wait_seconds + drain(trace) + LOADS[B]
    answer = answer_seconds(trace.models[1], asked[0], 1)
    assert figures.worst_of[B] <= first
    assert figures.worst_of[C] <= first + answer + EXIT + LOADS[C]


@pytest.mark.parametrize("rival", RIVALS)
def test_beside_a_model_that_is_never_idle_a_rival_serves_nobody_else(rival):
    figures = simulate(rival, never_idle(*NOW_AND_THEN))

    assert min(figures.worst_of[B], figures.worst_of[C]) > 1700.0
    assert figures.loads == 1


# Comparisons ------------------------------------------------------------------------------


def test_the_document_says_where_a_rival_is_better():
    trace = replace(TRACES["mixed"](SMALL), name="mixed")
    result = compare(trace, (OURS, *RIVALS), CONFIG)
    worse = {**result.figures, "ollama": replace(result.figures["ollama"], p95=0.0)}

    text = document([Result(trace, worse)], seed=3)

    assert "of ollama" in text
    assert text.count("| ollama |") == 1


def test_estimates_are_asked_for_those_who_wait():
    figures = simulate(OURS, TRACES["mixed"](SMALL))

    assert figures.estimates is not None
    assert 0.2 < figures.estimates.ratio_median < 5.0
