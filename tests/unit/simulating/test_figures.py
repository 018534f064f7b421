from __future__ import annotations

import pytest

from scheduler.core.values import PresetName, TenantId
from scheduler.simulating.figures import Tally, estimate_error, jain, quantile
from scheduler.simulating.tables import details, markdown_table, row, shortfalls, text_table
from scheduler.simulating.workload import SimulatedTenant

TEAM = (SimulatedTenant(TenantId("team")),)
WAITS = [float(number) for number in range(1, 101)]


@pytest.mark.parametrize(
    ("share", "value"), [(0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (1.0, 100.0), (0.0, 1.0)]
)
def test_a_quantile_is_the_value_that_so_many_do_not_exceed(share, value):
    assert quantile(WAITS, share) == value


def test_nobody_has_waited_nought_seconds():
    assert quantile([], 0.95) == 0.0


def test_jains_index_is_one_when_all_have_the_same():
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)


def test_jains_index_is_a_share_of_one_when_one_has_all():
    assert jain([9.0, 0.0, 0.0]) == pytest.approx(1 / 3)


def test_jains_index_of_nothing_served_is_one():
    assert jain([0.0, 0.0]) == 1.0


def test_estimates_are_compared_with_what_came():
    error = estimate_error([(5.0, 10.0), (12.0, 10.0), (30.0, 10.0)])

    assert (error.asked, error.ratio_median, error.ratio_p95) == (3, 1.2, 3.0)
    assert (error.error_median, error.error_p95) == (5.0, 20.0)


def test_an_estimate_of_no_wait_has_no_ratio():
    assert estimate_error([(2.0, 0.0)]).ratio_median == 0.0


def figures(*waits: float, loads: int = 0):
    tally = Tally(1)
    tally.loads = loads
    for wait in waits:
        tally.waited(PresetName("a"), 0, wait)
    return tally.figures(TEAM, 1, 10.0)


def test_the_worst_wait_is_kept_for_each_model():
    tally = Tally(1)
    for preset, wait in (("a", 1.0), ("b", 5.0), ("a", 3.0)):
        tally.waited(PresetName(preset), 0, wait)

    assert tally.figures(TEAM, 1, 10.0).worst_of == {"a": 3.0, "b": 5.0}


def test_a_wait_without_an_end_is_marked():
    tally = Tally(1)
    tally.waited(PresetName("a"), 0, 7.0)
    tally.still_waiting = 1

    assert "7 s and more" in row("rival", tally.figures(TEAM, 1, 10.0))


def test_tables_have_a_row_for_each_policy():
    rows = [row("ours", figures(1.0)), row("theirs", figures(2.0))]

    assert len(text_table(rows).splitlines()) == 3
    assert len(markdown_table(rows).splitlines()) == 4


def test_where_a_rival_is_better_is_said():
    results = {"ours": figures(2.0, loads=5), "theirs": figures(1.0, loads=5)}

    assert shortfalls(results, "ours", ["theirs"]) == [("theirs", "p95", 2.0, 1.0)]
    assert shortfalls(results, "theirs", ["ours"]) == []


def test_each_team_has_its_own_p95():
    tally = Tally(2)
    for tenant, wait in ((0, 1.0), (1, 9.0)):
        tally.waited(PresetName("a"), tenant, wait)
    two = tuple(SimulatedTenant(TenantId(name)) for name in ("one", "two"))

    text = details("ours", tally.figures(two, 1, 10.0))

    assert text == "ours: p95 by team: one 1.0 s, two 9.0 s"
