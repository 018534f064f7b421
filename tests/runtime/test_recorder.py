"""The record: complete, in order, and never in the way."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from scheduler.core.sizes import HOST, DeviceId, FileId, Grant, Kind, Need, Placement
from scheduler.core.values import Exit, InstanceId
from scheduler.models import DecisionRecord, InstanceRecord, prune_record
from scheduler.runtime.record import Allocated, Cached, Decided, Gone, Loaded, Started
from scheduler.runtime.recorder import Recorder

pytestmark = pytest.mark.django_db(transaction=True)

ONE, TWO = InstanceId(1), InstanceId(2)
KILLED = Exit(signal=9, words="the last line")


def record(*entries, **options):
    recorder = Recorder(retry_seconds=0.01, **options)
    recorder.start()
    for entry in entries:
        recorder(entry)
    recorder.stop(20)


def test_an_instance_is_one_row_from_its_start_to_its_end():
    record(
        Started(ONE, "a", revision=7),
        Cached(ONE, 0.25),
        Loaded(ONE, 4711, ("llama-server", "-m", "x")),
        Gone(ONE, 4711, ("llama-server", "-m", "x"), "crashed", KILLED),
    )

    row = InstanceRecord.objects.get()
    assert (row.preset, row.revision, row.pid) == ("a", 7, 4711)
    assert row.argv == ["llama-server", "-m", "x"]
    assert row.cached == 0.25
    assert row.started_at <= row.loaded_at <= row.ended_at
    assert (row.reason, row.exit_code, row.signal, row.words) == (
        "crashed", None, 9, "the last line",
    )  # fmt: skip


def test_what_was_granted_stands_beside_what_was_allocated():
    layers = ((DeviceId("CUDA0"), 33),)
    need = Need(((DeviceId("CUDA0"), 5), (HOST, 1)), ((FileId("m.gguf"), 2),))
    grant = Grant(Placement(Kind.WHOLE, layers), 8192, need, ((DeviceId("CUDA0"), 2),))
    record(
        Started(ONE, "a", 1, grant, "f1"),
        Allocated(ONE, Need(((DeviceId("CUDA0"), 6),))),
        Allocated(TWO, need),
    )

    row = InstanceRecord.objects.get()
    assert (row.placement, row.layers, row.context) == ("whole", {"CUDA0": 33}, 8192)
    assert (row.predicted, row.actual) == ({"CUDA0": 5, "Host": 3}, {"CUDA0": 6})
    assert (row.figures, row.surplus) == ("f1", {"CUDA0": 2})


def test_a_wake_does_not_change_when_it_was_loaded():
    early, late = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))
    record(Started(ONE, "a", 1), Loaded(ONE, 1, (), early), Loaded(ONE, 1, (), late))

    assert InstanceRecord.objects.get().loaded_at == early


def test_figures_are_kept_as_people_read_them():
    figures = {"for": "b", "waited": 30.123456789, "due": float("inf"), "slots": 2, "names": ["c"]}
    record(Started(ONE, "a", 1), Decided("drain", "a", ONE, "evicted", figures))

    assert DecisionRecord.objects.get().figures == {
        **figures,
        "waited": 30.123,
        "due": "inf",
    }


def test_a_decision_knows_its_instance():
    record(
        Started(ONE, "a", 1),
        Started(TWO, "b", 1),
        Decided("ask_exit", "a", ONE, "evicted", {"for": "b"}),
        Decided("start", "b", TWO, "requested"),
    )

    evicted, started = DecisionRecord.objects.order_by("id")
    assert (evicted.instance.preset, evicted.reason, evicted.figures) == (
        "a",
        "evicted",
        {"for": "b"},
    )
    assert started.instance.preset == "b"


def test_ten_thousand_entries_are_all_written():
    record(Started(ONE, "a", 1), *(Decided("drain", str(n), ONE, "evicted") for n in range(10_000)))

    assert DecisionRecord.objects.count() == 10_000


def test_equal_refusals_at_once_are_one_row():
    record(*(Decided("reject", "a", None, "model_backing_off") for _ in range(500)))

    assert DecisionRecord.objects.count() == 1


def test_different_refusals_are_rows_of_their_own():
    record(*(Decided("reject", name, None, "queue_full") for name in ("a", "b", "a")))

    assert DecisionRecord.objects.count() == 2


def test_a_full_queue_drops_and_does_not_wait():
    recorder = Recorder(queue_limit=3)
    for number in range(50):
        recorder(Decided("drain", str(number), None, "evicted"))
    recorder.start()
    recorder.stop(20)

    assert DecisionRecord.objects.count() == 3


def test_the_end_of_an_instance_whose_start_was_dropped_is_no_error():
    record(Gone(ONE, 1, (), "evicted", Exit(code=0)), Decided("kill", "a", ONE, "evicted"))

    assert InstanceRecord.objects.count() == 0
    assert DecisionRecord.objects.get().instance is None


def test_what_a_killed_scheduler_left_open_is_closed_at_the_next_start():
    InstanceRecord.objects.create(preset="a", started_at=timezone.now())
    record(Started(ONE, "b", 1))

    closed, running = InstanceRecord.objects.order_by("id")
    assert closed.reason == "scheduler_died"
    assert closed.ended_at is not None
    assert running.ended_at is None


class FailingTwice(Recorder):
    """A database that is away for two attempts."""

    def __init__(self):
        super().__init__(retry_seconds=0.01)
        self.failures = 0
        self.written = threading.Event()

    def _write(self, batch):
        if self.failures < 2:
            self.failures += 1
            raise OperationalError("the database is away")
        super()._write(batch)
        self.written.set()


def test_a_database_that_fails_is_tried_again():
    recorder = FailingTwice()
    recorder.start()
    recorder(Started(ONE, "a", 1))
    assert recorder.written.wait(20)
    recorder.stop(20)

    assert InstanceRecord.objects.count() == 1


def test_it_is_written_in_a_thread_of_its_own():
    threads = []

    class Watched(Recorder):
        def _write(self, batch):
            threads.append(threading.current_thread())
            super()._write(batch)

    recorder = Watched()
    recorder.start()
    recorder(Started(ONE, "a", 1))
    recorder.stop(20)

    assert threads
    assert threading.main_thread() not in threads


def test_pruning_removes_what_is_old_and_no_running_instance():
    old, new = timezone.now() - timedelta(days=40), timezone.now()
    for started, ended in ((old, old), (old, None), (new, new)):
        InstanceRecord.objects.create(preset="a", started_at=started, ended_at=ended)
    for at in (old, new):
        DecisionRecord.objects.create(at=at, kind="drain", preset="a", reason="evicted")

    assert prune_record(30) == 2
    assert InstanceRecord.objects.count() == 2
    assert DecisionRecord.objects.count() == 1
