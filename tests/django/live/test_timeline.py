"""The timeline and the reasons behind it, from the record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from scheduler.live_page import timeline as timelines
from scheduler.live_page.timeline import Item, timeline
from scheduler.models import DecisionRecord, InstanceRecord

from ..control_socket import StandInScheduler
from ..management import session_of, staff

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MIB = 1 << 20


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def ran(preset: str = "a", began: float = 30, **fields: Any) -> InstanceRecord:
    return InstanceRecord.objects.create(preset=preset, started_at=ago(began), **fields)


def decided(kind: str, reason: str, **fields: Any) -> DecisionRecord:
    named = {"preset": "a", "at": ago(6), **fields}
    return DecisionRecord.objects.create(kind=kind, reason=reason, **named)


def items(span: str = "1h", *, decisions: bool = True) -> list[Item]:
    told = timeline(span, decisions=decisions, now=NOW)
    return [item for lane in told.lanes for item in lane.items]


def test_a_load_and_a_run_stand_where_they_were() -> None:
    ran(began=30, loaded_at=ago(27), ended_at=ago(6), reason="idle")

    load, run = items()

    assert (load.look, load.left, load.width) == ("load", 50.0, 5.0)
    assert (run.look, run.left, run.width) == ("run", 55.0, 35.0)
    assert run.text == "a ran for 21 min"


def test_what_runs_still_reaches_to_now_and_what_began_before_to_the_edge() -> None:
    ran(began=600, loaded_at=ago(599))

    *_, run = items()

    assert (run.left, run.width) == (0.0, 100.0)


def test_what_ended_before_is_left_out() -> None:
    ran(began=200, loaded_at=ago(199), ended_at=ago(61), reason="idle")

    assert items() == []
    assert len(items("6h")) == 2


def test_a_failed_load_is_a_crash_with_its_last_words() -> None:
    ran(began=3, ended_at=ago(2), reason="failed_to_load", words="line\nno such tensor")

    crash = items()[-1]

    assert crash.look == "crash"
    assert "it ended before it was ready (no such tensor)" in crash.text


def test_what_one_that_has_served_said_last_is_not_quoted() -> None:
    ran(began=9, loaded_at=ago(8), ended_at=ago(2), reason="crashed", words="a client's prompt")

    assert "client" not in items()[-1].text


def test_an_eviction_tells_for_whom_and_by_which_figures() -> None:
    figures = {"for": "b", "idle_for": 840.0, "frees_CUDA0": 4700 * MIB, "waiters": 2}
    decided("ask_exit", "evicted", figures=figures)

    (mark,) = items()

    assert mark.look == "evict"
    assert mark.text == (
        "11:54:00, eviction: a was evicted for b. It had been idle for 14 min. "
        "That frees 4,700 MiB on CUDA0. 2 requests waited for it."
    )


def test_a_drain_lasts_until_its_instance_has_gone() -> None:
    row = ran(began=30, loaded_at=ago(30), ended_at=ago(3), reason="evicted")
    decided("drain", "evicted", instance=row, figures={"for": "b", "answers": 1})

    drain = next(item for item in items() if item.look == "drain")

    assert (drain.left, drain.width) == (90.0, 5.0)


def test_decisions_are_for_those_who_may_see_them() -> None:
    decided("reject", "queue_full")

    assert items(decisions=False) == []


def test_it_is_bounded_whatever_the_record_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "MOST_ROWS", 50)
    InstanceRecord.objects.bulk_create(
        InstanceRecord(preset=f"m{n}", started_at=ago(10), loaded_at=ago(9)) for n in range(60)
    )

    told = timeline("1h", decisions=True, now=NOW)

    assert told.cut
    assert len(told.lanes) == timelines.MOST_LANES


# Why ------------------------------------------------------------------------------------------


def why(client: Client, path: str) -> str:
    return " ".join(client.get(f"/admin/live/why/{path}/").content.decode().split())


def test_a_placement_tells_what_it_needed_and_what_there_was(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    row = ran(
        placement="whole", layers={"CUDA0": 33}, context=8192, predicted={"CUDA0": 5120 * MIB}
    )
    figures = {"needs_CUDA0": 5120 * MIB, "available_CUDA0": 8900 * MIB, "waiters": 1}
    figures["maps_/srv/a.gguf"] = 20 * MIB
    decided("start", "requested", instance=row, figures=figures)

    told = why(admin_client, f"instance/{row.pk}")

    assert "It went on CUDA0, with a context of 8,192 tokens." in told
    assert "a was started: a request asked for it. It needs 5,120 MiB on CUDA0." in told
    assert "Its weights are mapped from /srv/a.gguf, 20 MiB." in told
    assert "After the margin there were available 8,900 MiB on CUDA0." in told


def test_a_refusal_tells_what_was_missing(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    figures = {"short": {"CUDA0": 1220 * MIB}, "blocked_by": ["b", "c"], "requests": 3}
    row = decided("reject", "blocked_by_pinned", figures=figures)

    told = why(admin_client, f"decision/{row.pk}")

    assert "A request for a was refused: only pinned models stood in its way." in told
    assert "It lacked 1,220 MiB on CUDA0. In its way: b, c. Refused alike: 3 requests." in told


def test_a_waiting_request_is_explained(admin_client: Client, scheduler: StandInScheduler) -> None:
    told = why(admin_client, "request/mine-1")

    assert "Its model is being loaded." in told
    assert "Estimate until it is served" in told


def test_decisions_are_explained_to_those_who_may_view_them(scheduler: StandInScheduler) -> None:
    row = decided("reject", "queue_full")
    looker = session_of(staff("scheduler.view_instancerecord"))

    assert looker.get(f"/admin/live/why/decision/{row.pk}/").status_code == 403
