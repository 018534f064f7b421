"""Figures that several processes count: nothing is lost or counted twice, and no name takes the
memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.tally import OTHER, SECONDS, Spread, Tallied, Tally

LABELS = st.sampled_from([("a",), ("b",), ("c",)])
HAPPENED = st.lists(
    st.one_of(
        st.tuples(st.just("n_total"), LABELS, st.integers(1, 9)),
        st.tuples(st.just("seconds"), LABELS, st.floats(0, 1000)),
    ),
    max_size=30,
)


def counted(tally: Tally, happened) -> None:
    for name, labels, value in happened:
        if name == "n_total":
            tally.count(name, labels, value)
        else:
            tally.spread(name, labels, value)


def shown(tallied: Tallied):
    counts = {(c.name, c.labels): c.value for c in tallied.counts}
    return counts, {(s.name, s.labels): (s.ranges, round(s.total, 6)) for s in tallied.spreads}


@given(by_process=st.lists(st.lists(HAPPENED, max_size=4), max_size=3), most=st.integers(1, 3))
def test_what_processes_hand_over_adds_up(by_process, most):
    together, all_of_them = Tally(), Tally()
    for turns in by_process:
        own = Tally()
        for happened in turns:
            counted(own, happened)
            counted(all_of_them, happened)
            for part in own.take().parts(most):
                assert len(part.counts) + len(part.spreads) <= most
                together.add(part)
        assert not own

    assert shown(together.whole()) == shown(all_of_them.whole())


def test_a_duration_falls_into_the_range_whose_bound_it_does_not_pass():
    tally = Tally()
    for seconds in (0.0, 0.001, 0.0011, SECONDS[-1], SECONDS[-1] + 1):
        tally.spread("seconds", (), seconds)

    [spread] = tally.whole().spreads
    assert spread.ranges[0] == 2
    assert spread.ranges[1] == 1
    assert spread.ranges[-2:] == [1, 1]
    assert sum(spread.ranges) == 5


def test_names_without_end_count_as_other():
    tally = Tally(most_series=3)
    for number in range(100):
        tally.count("n_total", (f"m{number}", "x"))
        tally.spread("seconds", (f"m{number}",), 1.0)

    whole = tally.whole()
    assert len(whole.counts) + len(whole.spreads) <= 5
    assert sum(count.value for count in whole.counts) == 100
    assert {c.labels for c in whole.counts} >= {(OTHER, OTHER)}
    assert sum(sum(spread.ranges) for spread in whole.spreads) == 100


def test_ranges_of_another_number_say_nothing():
    tally = Tally()
    tally.add(Tallied(spreads=[Spread("seconds", (), [1, 2, 3], 6.0)]))

    assert not tally.whole().spreads
