from __future__ import annotations

import pytest

from scheduler.core.errors import IllegalTransition
from scheduler.core.instances import Instance
from scheduler.core.states import REPORTS, TRANSITIONS, Cue, State, advance

from .story import preset


def an_instance(state: State = State.LOADING) -> Instance:
    return Instance(1, preset("a"), started_at=0.0, last_used=0.0, state=state)


def test_every_state_has_a_row():
    assert set(TRANSITIONS) == set(State)


@pytest.mark.parametrize("state", sorted(set(State) - {State.EXITED}))
def test_a_child_may_exit_in_any_state(state):
    assert advance(state, Cue.EXIT) is State.EXITED


@pytest.mark.parametrize("report", sorted(REPORTS))
@pytest.mark.parametrize("state", sorted(set(State) - {State.EXITED}))
def test_a_report_of_a_living_child_is_legal_however_late_it_comes(state, report):
    advance(state, report)


@pytest.mark.parametrize("report", sorted(REPORTS))
def test_a_late_report_does_not_bring_a_stopping_child_back(report):
    assert advance(State.STOPPING, report) is State.STOPPING


@pytest.mark.parametrize("report", sorted(REPORTS))
def test_a_report_does_not_end_a_drain(report):
    assert advance(State.DRAINING, report) is State.DRAINING


def test_a_late_progress_line_does_not_unload_a_loaded_child():
    assert advance(State.LOADED, Cue.LOADING) is State.LOADED


def test_a_sleeper_is_woken_through_loading():
    assert advance(advance(State.SLEEPING, Cue.WAKE), Cue.READY) is State.LOADED


ILLEGAL = [(state, cue) for state in State for cue in Cue if cue not in TRANSITIONS[state]]


@pytest.mark.parametrize(("state", "cue"), ILLEGAL)
def test_an_illegal_cue_raises_and_changes_nothing(state, cue):
    instance = an_instance(state)
    before = (instance.state, instance.child, instance.has_loaded)

    with pytest.raises(IllegalTransition):
        instance.advance(cue)

    assert (instance.state, instance.child, instance.has_loaded) == before


@pytest.mark.parametrize("state", sorted({State.LOADING, State.LOADED}))
def test_what_is_not_asleep_cannot_be_woken(state):
    with pytest.raises(IllegalTransition):
        advance(state, Cue.WAKE)


def test_nothing_follows_on_an_exit():
    assert TRANSITIONS[State.EXITED] == {}


@pytest.mark.parametrize(
    ("reports", "back"),
    [
        ([], State.LOADED),
        ([Cue.ASLEEP], State.SLEEPING),
        ([Cue.ASLEEP, Cue.LOADING], State.LOADING),
        ([Cue.ASLEEP, Cue.LOADING, Cue.READY], State.LOADED),
    ],
)
def test_an_undone_drain_leads_back_to_what_the_child_has_meanwhile_become(reports, back):
    instance = an_instance()
    for cue in [Cue.READY, Cue.DRAIN, *reports]:
        instance.advance(cue)

    instance.undrain()

    assert instance.state is back
