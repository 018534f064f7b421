"""The live page: what it shows of the scheduler, to whom, and what its buttons do."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from models_registry.models import Preset
from scheduler.protocol import (
    DeviceInstance,
    DevicesState,
    DeviceState,
    Failure,
    InstanceState,
    QueueEntry,
    SnapshotState,
    Victim,
    Waiter,
    WaitersPage,
)

from ..control_socket import StandInScheduler
from ..management import session_of, staff
from ..usage.recorded import a_request, recorded

pytestmark = pytest.mark.django_db

PAGE = "/admin/live/"
EVIL = '<img src=x onerror="alert(1)">'
MIB = 1 << 20
CUDA = DeviceState(
    "CUDA0", "NVIDIA H200", "CUDA", 10_000 * MIB, 5_000 * MIB, 1_000 * MIB, 4_000 * MIB, 0, 0,
    1_024 * MIB, 8_000 * MIB, 2_976 * MIB,
    instances=[DeviceInstance(3, "user/repo:Q4_K_M", 4_000 * MIB, 3_900 * MIB, 4_000 * MIB)],
)  # fmt: skip
LOADED = InstanceState(
    3, "user/repo:Q4_K_M", "loaded", 1, 0, 4, 77, True, 90.0, 5.0,
    context=4096, predicted={"CUDA0": 3_900 * MIB}, held={"CUDA0": 4_000 * MIB},
)  # fmt: skip
QUEUED = QueueEntry("b", 1, 12.0, "busy", 30.0, [Victim(3, "user/repo:Q4_K_M")], 18.0)


def busy(scheduler: StandInScheduler) -> None:
    """One instance, one waiter, one failure."""
    failed = Failure("c", "failed_to_load", 1, None, "no such tensor", 9.0, 60.0)
    scheduler.snapshot = SnapshotState(1, 0, 4, False, [LOADED], [QUEUED], [failed])
    scheduler.devices = DevicesState([CUDA])
    waiter = Waiter(1, "req-7", "builders", "post", "normal", 12.0, 30.0)
    scheduler.waiters = WaitersPage("b", 1, [waiter])


def text(client: Client, path: str = PAGE) -> str:
    return " ".join(client.get(path).content.decode().split())


def test_memory_cards_and_queue_are_in_the_first_answer(
    admin_client: Client, scheduler: StandInScheduler, preset: Preset
) -> None:
    busy(scheduler)

    page = text(admin_client)

    assert "Total 10,000 MiB; budget 8,000 MiB; available for a start 2,976 MiB." in page
    for figure in ("4,000 MiB", "3,900 MiB", "1,000 MiB", "1,024 MiB"):
        assert figure in page
    assert "1 of 4" in page
    assert ">stale<" in page
    assert "it ended before it was ready: no such tensor" in page
    assert "builders" in page
    assert (
        "is the next; all that could make way are answering; user/repo:Q4_K_M makes way "
        "in 18 sec at the latest" in page
    )
    assert "about 30 sec" in page


def test_what_is_named_by_others_is_escaped(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    scheduler.snapshot = SnapshotState(
        1, 0, 4, False, [], [QueueEntry(EVIL, 1, 1.0, "turn")],
        [Failure(EVIL, EVIL, 1, 1, EVIL, 1, 1)],
    )  # fmt: skip
    scheduler.waiters = WaitersPage(EVIL, 1, [Waiter(1, "r", EVIL, EVIL, "normal", 1, 1)])

    assert EVIL not in text(admin_client)


def test_while_the_scheduler_is_away_the_page_says_so(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    scheduler.socket.unlink()

    assert "the scheduler does not answer" in text(admin_client)


@pytest.mark.parametrize("path", [PAGE, f"{PAGE}parts/", f"{PAGE}why/request/x/"])
def test_it_takes_the_right_to_view_instances(scheduler: StandInScheduler, path: str) -> None:
    assert session_of(staff()).get(path).status_code == 403


def test_who_may_only_look_gets_no_buttons_and_no_decisions(
    scheduler: StandInScheduler, preset: Preset
) -> None:
    busy(scheduler)
    looker = session_of(staff("scheduler.view_instancerecord"))

    page = text(looker)
    refused = looker.post(f"{PAGE}ask/", {"verb": "unload", "preset": preset.name})

    assert "data-ask" not in page
    assert "shown to those who may view decisions" in page
    assert refused.status_code == 403
    assert scheduler.times("Unload") == 0


def test_a_button_asks_the_scheduler_and_tells_the_result(
    admin_client: Client, scheduler: StandInScheduler, preset: Preset
) -> None:
    def press(verb: str, name: str = preset.name) -> Any:
        asked = {"verb": verb, "preset": name}
        headers = {"X-Requested-With": "fetch"}
        return admin_client.post(f"{PAGE}ask/", asked, headers=headers).json()["told"]

    assert press("load") == [{"level": "success", "text": f"{preset.name} is being loaded."}]
    assert press("pin")[0]["text"].startswith(f"{preset.name} is pinned")
    assert press("load", "nobody")[0]["level"] == "error"
    assert scheduler.times("Load") == 1
    preset.refresh_from_db()
    assert preset.pinned


def test_a_button_needs_the_token(
    admin_user: Any, scheduler: StandInScheduler, preset: Preset
) -> None:
    client = session_of(admin_user, csrf=True)

    answer = client.post(f"{PAGE}ask/", {"verb": "load", "preset": preset.name})

    assert answer.status_code == 403
    assert scheduler.times("Load") == 0


def test_how_fast_models_answer_is_told_of_their_streamed_answers(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    busy(scheduler)
    of = {"preset": LOADED.preset, "stream": True}
    recorded(
        a_request(record="1", answered=91, first_token=1.0, duration=4.0, **of),
        a_request(record="2", answered=10, first_token=1.0, duration=3.0, **of),
        a_request(record="0", answered=1, first_token=1.0, duration=1.001, **of),
        a_request(record="3", answered=999, first_token=None, duration=1.0, **of),
        a_request(record="4", answered=30, first_token=1.0, duration=1.001, preset=LOADED.preset),
    )

    assert "<dd>19.8</dd>" in text(admin_client)


def test_the_timeline_is_left_out_where_nothing_new_is_in_it(
    admin_client: Client, scheduler: StandInScheduler
) -> None:
    assert "live-timeline" in text(admin_client, f"{PAGE}parts/")
    assert "live-timeline" not in text(admin_client, f"{PAGE}parts/?past=0")


def test_many_models_take_few_questions(
    admin_client: Client, scheduler: StandInScheduler, django_assert_max_num_queries: Any
) -> None:
    many = [QueueEntry(f"m{n}", 9, 1.0, "turn") for n in range(200)]
    running = [InstanceState(n, f"m{n}", "loaded", 0, 0, 1, 1, False, 1.0, 1.0) for n in range(200)]
    scheduler.snapshot = SnapshotState(1, 0, 0, False, running, many, [])

    with django_assert_max_num_queries(12):
        page = text(admin_client)

    assert page.count("live-card") > 200
    assert "180 more models are waited for" in page
    assert scheduler.times("Waiters") == 10
