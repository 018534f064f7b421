from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

import pytest

from scheduler.core.values import PresetName
from scheduler.simulating.arrivals import DAY, SHORT, Answers, Rate, Stream, zipf
from scheduler.simulating.traces import TRACES, Wish

MODELS = [PresetName(name) for name in "abc"]


def stream(rate: Rate, **more) -> Stream:
    return Stream(rate, MODELS, zipf(3), **more)


@pytest.mark.parametrize("name", TRACES)
def test_a_seed_makes_the_same_trace_each_time(name):
    made = TRACES[name](Wish(requests=200, seed=7))
    again = TRACES[name](Wish(requests=200, seed=7))

    assert list(made.arrivals()) == list(made.arrivals()) == list(again.arrivals())
    assert made.models == again.models


@pytest.mark.parametrize("name", TRACES)
def test_requests_come_in_the_order_of_time_for_models_and_tenants_that_there_are(name):
    made = TRACES[name](Wish(requests=500))
    arrivals = list(made.arrivals())

    assert all(earlier.at <= later.at for earlier, later in pairwise(arrivals))
    assert {arrival.preset for arrival in arrivals} <= {spec.name for spec in made.specs}
    assert all(arrival.tenant < len(made.tenants) for arrival in arrivals)


def test_another_seed_makes_another_trace():
    one, other = (TRACES["mixed"](Wish(requests=50, seed=seed)) for seed in (1, 2))

    assert list(one.arrivals()) != list(other.arrivals())


def test_a_trace_has_as_many_requests_and_models_as_were_wished():
    made = TRACES["zipf"](Wish(requests=123, models=10_000))

    assert len(list(made.arrivals())) == 123
    assert len({spec.name for spec in made.specs}) == 10_000


def test_the_rate_of_poisson_is_kept():
    arrivals = list(stream(Rate(2.0)).arrivals(20_000, "seed"))

    assert arrivals[-1].at == pytest.approx(10_000, rel=0.03)


def test_by_zipf_the_first_model_is_asked_for_twice_as_often_as_the_second():
    asked = Counter(arrival.preset for arrival in stream(Rate(1.0)).arrivals(20_000, "seed"))

    assert asked[MODELS[0]] / asked[MODELS[1]] == pytest.approx(2.0, rel=0.1)


def test_a_burst_is_of_one_model_at_one_time():
    rate = Rate(0.1, burst_every=100.0, burst_size=5)
    times = Counter(
        (arrival.at, arrival.preset) for arrival in stream(rate).arrivals(2_000, "seed")
    )

    assert set(times.values()) == {1, 5}


def test_the_night_brings_less_than_the_day():
    arrivals = stream(Rate(0.2, swing=0.9)).arrivals(15_000, "seed")
    hours = Counter(int(arrival.at % DAY // 3600) for arrival in arrivals)

    assert hours[0] < hours[12] / 5


def test_long_answers_are_as_many_as_was_said():
    answers = Answers(short=10.0, long=1000.0, long_share=0.25, spread=0.1)
    arrivals = stream(Rate(1.0), answers=answers).arrivals(8_000, "seed")

    long = sum(arrival.answered > 100 for arrival in arrivals)

    assert long / 8_000 == pytest.approx(0.25, abs=0.02)


def test_tenants_ask_as_much_as_was_said():
    demand = stream(Rate(1.0), tenants=(0, 1), demand=(3.0, 1.0), answers=SHORT)

    asked = Counter(arrival.tenant for arrival in demand.arrivals(8_000, "seed"))

    assert asked[0] / asked[1] == pytest.approx(3.0, rel=0.1)


def test_a_stream_is_made_as_it_is_read():
    endless = stream(Rate(1.0)).arrivals(10**9, "seed")

    assert len(list(islice(endless, 3))) == 3
