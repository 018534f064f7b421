"""The page that Prometheus reads, as its own parser reads it."""

from __future__ import annotations

import itertools
import re

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from proxy.metrics.counted import counted
from proxy.metrics.families import COUNTS, SPREADS
from proxy.metrics.noting import count_records
from proxy.metrics.page import page
from proxy.usage.record import Record
from scheduler.memory_states import DevicesState, DeviceState
from scheduler.protocol import InstanceState, QueueEntry, SavesState, SnapshotState
from scheduler.runtime.kv_saves.counting import Counting
from scheduler.runtime.kv_saves.store import Kind, Save
from scheduler.runtime.tallied_record import ENDS, LOAD_SECONDS, STARTS
from scheduler.tally import SECONDS, Tallied, Tally

OWN = """# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 42
# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 1
"""


def live(**changed) -> SnapshotState:
    instance = InstanceState(
        instance=7,
        preset='qwen "3"\n',
        state="loaded",
        leases=2,
        abandoned=0,
        parallel=4,
        pid=1,
        stale=False,
        started_ago=12.5,
        used_ago=0.0,
        held={"Host": 100, "CUDA0": 5000},
    )
    fields = {
        "pid": 1,
        "revision": 3,
        "models_max": 4,
        "shutting_down": False,
        "instances": [instance],
        "queue": [QueueEntry(preset="other", waiters=3, oldest=1.5)],
        "failures": [],
    }
    return SnapshotState(**{**fields, **changed})


def test_what_is_saved_of_conversations_is_told_by_model():
    saves = [SavesState("a", 3, 99, 7, 5, 4, 25.1)]
    tally = Tally()
    counting = Counting(tally)
    save = Save("x", Kind("a", "m", "k"), "t", True, 300, 99, 0, (), 3.0, 0.0)
    counting.saved([save])
    counting.restored([save])
    counting.came_back(save, 0.5)
    counting.dropped(save, "room")
    told = read(page(tally.whole(), live(saves=saves), devices(), []))

    model = ("model", "a")
    assert told["corral_kv_saves", (model,)] == 3
    assert told["corral_kv_saves_bytes", (model,)] == 99
    assert told["corral_kv_saved_bytes_total", (model,)] == 99
    assert told["corral_kv_restored_total", (model,)] == 1
    assert told["corral_kv_hit_tokens_total", (model,)] == 300
    assert told["corral_kv_spared_seconds_total", (model,)] == 2.5
    assert told["corral_kv_saves_dropped_total", (model, ("reason", "room"))] == 1


def devices() -> DevicesState:
    host = DeviceState(
        device="Host", description="", kind="host", total=1000, free=500, external=100, held=400,
        returning=0, leaving=0, margin=60, budget=800, available=340, utilisation=12,
    )  # fmt: skip
    return DevicesState([host])


def read(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    samples = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples, f"{key} is told twice"
            samples[key] = sample.value
    return samples


def of(samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def tallied(*records: Record) -> Tallied:
    tally = Tally()
    count_records(records, tally)
    return tally.whole()


def answered(**changed) -> Record:
    fields = {
        "record": "r", "request_id": "q", "at": 0.0, "team": "red", "preset": "m", "stream": True,
        "status": 200, "read": 10, "cached": 4, "answered": 11, "duration": 1.5,
        "first_token": 0.5, "queue_wait": 0.25,
    }  # fmt: skip
    return Record(**{**fields, **changed})


def test_requests_are_told_by_model_team_and_outcome():
    refused = answered(status=429, code="rate_limit_exceeded", stream=False, answered=None)
    samples = read(page(tallied(answered(), answered(), refused), live(), devices(), []))

    name = "corral_requests_total"
    assert of(samples, name, model="m", team="red", outcome="ok") == 2
    assert of(samples, name, model="m", team="red", outcome="rate_limit_exceeded") == 1
    assert of(samples, "corral_tokens_total", model="m", team="red", kind="read") == 30
    assert of(samples, "corral_tokens_total", model="m", team="red", kind="answered") == 22
    per_token = "gen_ai_server_time_per_output_token_seconds"
    assert of(samples, f"{per_token}_count", model="m") == 2
    assert of(samples, f"{per_token}_sum", model="m") == 0.2
    assert of(samples, "corral_queue_wait_seconds_sum", model="m") == 0.75


def test_ranges_grow_up_to_the_count():
    samples = read(page(tallied(answered(), answered(duration=9999)), live(), devices(), []))

    name = "gen_ai_server_request_duration_seconds"
    bounds = [f"{bound:g}" for bound in SECONDS] + ["+Inf"]
    ranges = [of(samples, f"{name}_bucket", model="m", le=bound) for bound in bounds]
    assert ranges == sorted(ranges)
    assert ranges[-2:] == [1, 2]
    assert of(samples, f"{name}_count", model="m") == 2


def test_what_is_loaded_and_waits_is_told_with_any_name():
    samples = read(page(Tallied(), live(), devices(), []))

    labels = {"model": 'qwen "3"\n', "instance": "7"}
    assert of(samples, "corral_instance_state", state="loaded", **labels) == 1
    assert of(samples, "corral_instance_held_bytes", device="CUDA0", **labels) == 5000
    assert of(samples, "corral_queue_waiters", model="other") == 3
    assert of(samples, "corral_device_bytes", device="Host", kind="available") == 340
    assert of(samples, "corral_device_bytes", device="Host", kind="budget") == 800


def test_models_speak_for_themselves_with_their_label_and_for_nobody_else():
    lies = "# TYPE corral_queue_waiters gauge\ncorral_queue_waiters 99\n" + OWN
    told = [("a", 1, OWN), ("b", 2, lies), ("c", 3, "no } metrics { at all"), ("d", 4, "x" * 99)]
    samples = read(page(Tallied(), live(), devices(), told))

    name = "llamacpp:prompt_tokens_total"
    assert of(samples, name, model="a", instance="1") == 42
    assert of(samples, name, model="b", instance="2") == 42
    assert [key for key in samples if key[0] == "corral_queue_waiters"] == [
        ("corral_queue_waiters", (("model", "other"),))
    ]


def test_every_figure_has_help_a_type_and_a_name_by_the_rules():
    text = page(tallied(answered()), live(), devices(), [("a", 1, OWN)]).decode()

    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        assert family.type != "unknown", family.name
        assert re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", family.name)
        for sample in family.samples:
            assert family.type != "counter" or sample.name.endswith("_total")
            assert not any(label.startswith("__") for label in sample.labels)


def test_what_the_scheduler_counts_has_its_words():
    assert {STARTS, ENDS} <= set(COUNTS)
    assert LOAD_SECONDS in SPREADS


def test_what_was_counted_is_written_as_the_library_would_write_it():
    odd = answered(
        preset='a "b"\\\n{c}', team="té,=am", queue_wait=1e-9, duration=1e6, load_wait=3.0
    )
    figures = tallied(answered(), odd)
    metrics = []
    for count in figures.counts:
        metric = CounterMetricFamily(count.name, "", labels=COUNTS[count.name].labels)
        metric.add_metric(count.labels, count.value)
        metrics.append(metric)
    for spread in figures.spreads:
        metric = HistogramMetricFamily(spread.name, "", labels=SPREADS[spread.name].labels)
        sums = itertools.accumulate(spread.ranges)
        bounds = [*(f"{bound:g}" for bound in SECONDS), "+Inf"]
        metric.add_metric(spread.labels, list(zip(bounds, sums, strict=True)), spread.total)
        metrics.append(metric)

    class Given:
        def collect(self):
            return metrics

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Given())

    assert read("".join(counted(figures)).encode()) == read(generate_latest(registry))


def test_a_model_cannot_speak_for_what_was_counted():
    lies = "# TYPE corral_requests_total counter\ncorral_requests_total 99\n"
    samples = read(page(Tallied(), live(), devices(), [("a", 1, lies)]))

    assert [key for key in samples if key[0] == "corral_requests_total"] == []
