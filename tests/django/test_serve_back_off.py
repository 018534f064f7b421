"""When a process that died starts again, and when one that is silent is taken for dead."""

from __future__ import annotations

from routerproj.serve.restarts import BackOff, Silence


def test_the_wait_doubles_up_to_its_bound() -> None:
    back_off = BackOff()

    waits = [back_off.delay_after(1.0) for _ in range(9)]

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_a_steady_run_forgives() -> None:
    back_off = BackOff()
    for _ in range(5):
        back_off.delay_after(1.0)

    assert back_off.delay_after(30.0) == 0.1
    assert back_off.delay_after(1.0) == 0.2


def test_one_that_answers_never_hangs() -> None:
    silence = Silence()

    assert not any(silence.hangs(1, answered=True, now=float(now)) for now in range(100))


def test_one_that_answered_and_is_silent_for_ten_seconds_hangs() -> None:
    silence = Silence()
    silence.hangs(1, answered=True, now=0.0)

    assert not silence.hangs(1, answered=False, now=9.9)
    assert silence.hangs(1, answered=False, now=10.0)


def test_one_that_starts_has_more_time() -> None:
    silence = Silence()

    assert not silence.hangs(1, answered=False, now=0.0)
    assert not silence.hangs(1, answered=False, now=29.0)
    assert silence.hangs(1, answered=False, now=30.0)


def test_a_new_process_begins_anew() -> None:
    silence = Silence()
    silence.hangs(1, answered=True, now=0.0)

    assert not silence.hangs(2, answered=False, now=20.0)
    assert not silence.hangs(2, answered=False, now=35.0)
