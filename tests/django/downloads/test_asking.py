"""What people and programs ask of downloads, and what is answered when it makes no sense."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from models_registry.downloads import asking, jobs, tokens, work
from models_registry.errors import ManagementRefused
from models_registry.models import Download
from models_registry.ports import SchedulerUnavailable
from models_registry.revision import registry_revision

from .conftest import GGUF, parts, worked

pytestmark = pytest.mark.django_db

REPO = {"m-Q8_0.gguf": GGUF * 10}


def made(target: str = "team/m", **fields) -> Download:
    return asking.create(fields.pop("kind", "hub"), target, asked_by="a test", **fields)


def state(row: Download) -> str:
    return Download.objects.get(pk=row.pk).state


def test_the_same_thing_is_not_asked_for_twice(stand_in) -> None:
    first = made()

    with pytest.raises(ManagementRefused, match=f"download {first.pk}") as refused:
        made()
    assert refused.value.code == "conflict"

    assert made(revision="other").pk
    asking.cancel(first.pk)
    assert made().pk


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"kind": "magic"}, "kind"),
        ({"target": "no repository"}, "target"),
        ({"kind": "url", "target": "http:"}, "target"),
        ({"kind": "url", "target": "https://h/m.gguf", "revision": "main"}, "revision"),
        ({"sidecars": ["wings"]}, "sidecars"),
        ({"token": "with blank"}, "token"),
        ({"kind": "ollama", "target": "m", "token": "t"}, "token"),
    ],
)
def test_what_cannot_be_fetched_is_refused_at_its_field(stand_in, fields, at: str) -> None:
    with pytest.raises(ManagementRefused) as refused:
        made(**fields)

    assert (refused.value.code, refused.value.param) == ("validation_failed", at)
    assert not Download.objects.exists()


def test_one_that_waits_is_paused_resumed_and_cancelled(stand_in) -> None:
    row = made()

    asking.pause(row.pk)
    assert state(row) == "paused"
    assert not work.work(row.pk), "a paused one is not begun"
    asking.resume(row.pk)
    assert state(row) == "queued"
    asking.cancel(row.pk)
    assert state(row) == "cancelled"


@pytest.mark.parametrize(
    ("verb", "states"),
    [
        (asking.pause, ("paused", "done", "failed", "cancelled")),
        (asking.resume, ("queued", "running", "done")),
        (asking.cancel, ("done", "cancelled")),
    ],
)
def test_what_makes_no_sense_is_a_conflict(stand_in, verb, states) -> None:
    for each in states:
        row = Download.objects.create(target=f"team/{each}", state=each)
        with pytest.raises(ManagementRefused) as refused:
            verb(row.pk)
        assert refused.value.code == "conflict"


def test_a_wish_that_a_dead_job_never_heard_is_heard_by_the_next_one(
    stand_in, tmp_path: Path
) -> None:
    stand_in.repository("team/m", REPO)
    row = Download.objects.create(target="team/m", state="running")

    asking.pause(row.pk)
    assert state(row) == "running"
    assert worked(row).state == "paused"


def test_a_running_row_whose_job_has_died_is_taken_up(stand_in) -> None:
    stand_in.repository("team/m", REPO)
    row = Download.objects.create(target="team/m", state="running", name="team/m")

    assert row.pk in work.unattended()
    assert worked(row).state == "done"


def test_a_row_that_somebody_works_on_is_left_alone(stand_in, settings) -> None:
    from models_registry.downloads.places import held, state_folder

    row = made()
    with held(state_folder() / f"{row.pk}.lock"):
        assert not work.work(row.pk)
    assert state(row) == "queued"


def test_who_finds_no_turn_is_done_by_those_who_have_one(stand_in, settings) -> None:
    stand_in.repository("team/m", REPO)
    stand_in.repository("team/n", REPO)
    settings.CORRAL_DOWNLOADS = 1
    turns = work.Turns()
    rows = [made("team/m"), made("team/n")]

    with turns._free:
        turns.work(rows[0].pk)
    assert [state(row) for row in rows] == ["queued", "queued"]

    turns.work(rows[0].pk)
    assert [state(row) for row in rows] == ["done", "done"]


def test_it_is_enqueued_once_the_row_is_there(
    stand_in, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks
) -> None:
    put: list[int] = []
    monkeypatch.setattr(jobs, "fetch", put.append)

    with django_capture_on_commit_callbacks(execute=True):
        row = made()

    assert put == [row.pk]


def test_a_queue_that_cannot_be_written_loses_nothing(
    stand_in, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks
) -> None:
    def broken(download: int) -> None:
        raise OSError("no queue")

    monkeypatch.setattr(jobs, "fetch", broken)
    with django_capture_on_commit_callbacks(execute=True):
        row = made()

    assert row.pk in work.unattended()


def test_a_token_lies_in_a_file_of_its_own_that_only_we_can_read(stand_in, tmp_path: Path) -> None:
    row = made(token="hf_canary")
    [file] = (tmp_path / "var" / "downloads").glob("*.token")

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert tokens.own(row.pk) == "hf_canary"
    assert "hf_canary" not in str(Download.objects.values().get())

    asking.cancel(row.pk)
    assert not file.exists()


def test_a_forgotten_one_takes_its_unfinished_files_along(
    stand_in, fetched, tmp_path: Path
) -> None:
    stand_in.repository("team/m", REPO)
    stand_in.fault("/cdn/", "half")
    stand_in.fault("/cdn/", "404")
    row = fetched("team/m")
    assert (row.state, len(parts(tmp_path))) == ("failed", 1)

    asking.forget(row.pk)

    assert not parts(tmp_path)
    assert not Download.objects.exists()


def test_what_another_one_still_wants_is_kept(stand_in, fetched, tmp_path: Path) -> None:
    stand_in.repository("team/m", REPO)
    for _ in range(2):
        stand_in.fault("/cdn/", "half")
        stand_in.fault("/cdn/", "404")
    first = fetched("team/m")
    second = fetched("team/m:Q8_0")
    Download.objects.filter(pk=second.pk).update(state="paused")

    asking.cancel(first.pk)

    assert len(parts(tmp_path)) == 1


def test_a_running_one_is_not_forgotten(stand_in) -> None:
    row = Download.objects.create(target="team/m", state="running")

    with pytest.raises(ManagementRefused, match="cancel it first"):
        asking.forget(row.pk)


def test_one_that_shall_be_loaded_is(stand_in, fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.django.registry_rows import FakeScheduler, use_scheduler

    scheduler = use_scheduler(monkeypatch, FakeScheduler())
    stand_in.repository("team/m", REPO)

    fetched("team/m", load=True)

    assert ("load", "team/m:Q8_0") in scheduler.asked


def test_a_scheduler_that_is_still_starting_is_waited_for(
    stand_in, fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.django.registry_rows import FakeScheduler, use_scheduler

    class Starting(FakeScheduler):
        def load(self, preset: str, *, wait: bool = False) -> bool:
            self.refuses = None if self.asked else SchedulerUnavailable("not yet")
            return super().load(preset, wait=wait)

    scheduler = use_scheduler(monkeypatch, Starting())
    monkeypatch.setattr(work, "SCHEDULER_PAUSE_SECONDS", 0)
    stand_in.repository("team/m", REPO)

    fetched("team/m", load=True)

    assert scheduler.asked.count(("load", "team/m:Q8_0")) == 2


def test_a_name_that_is_being_fetched_is_taken_at_once(stand_in) -> None:
    before = registry_revision()
    row = made(target="team/m:Q8_0")
    row.name = "team/m:Q8_0"
    row.save()

    assert registry_revision() == before + 1
    assert asking.coming_names() == {"team/m:Q8_0"}
    asking.cancel(row.pk)
    assert asking.coming_names() == frozenset()
