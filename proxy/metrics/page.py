"""The page that Prometheus reads: what was counted, what there is now, what the models say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from proxy.metrics.children import Told, families_of
from proxy.metrics.counted import NAMES, counted
from scheduler.protocol import DevicesState, SnapshotState
from scheduler.tally import Tallied

if TYPE_CHECKING:
    from prometheus_client import Metric

DEVICE_KINDS = ("total", "free", "external", "held", "returning", "leaving", "margin", "available")


def page(
    tallied: Tallied, live: SnapshotState, devices: DevicesState, told: Iterable[Told]
) -> bytes:
    """Takes tens of milliseconds where there is much: for a thread. The library's import takes
    megabytes, which only who is scraped needs."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    now = [*_instances(live), *_devices(devices)]
    ours = NAMES.union(family.name for family in now)
    registry.register(_Given(lambda: [*now, *families_of(told, ours)]))
    return "".join(counted(tallied)).encode() + generate_latest(registry)


class _Given:
    """A collector of what is there already."""

    def __init__(self, given: Callable[[], list[Metric]]) -> None:
        self._given = given

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        return self._given()


def _instances(live: SnapshotState) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

    def gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"corral_{name}", words, labels=labels)

    state = gauge("instance_state", "1 for the state an instance is in.", "model", "instance",
                  "state")  # fmt: skip
    leases = gauge("instance_requests", "Requests that it answers.", "model", "instance")
    slots = gauge("instance_slots", "Requests that it may answer at once.", "model", "instance")
    held = gauge("instance_held_bytes", "Memory that it holds in the ledger.", "model", "instance",
                 "device")  # fmt: skip
    up = gauge("instance_uptime_seconds", "Since it was started.", "model", "instance")
    for each in live.instances:
        labels = [each.preset, str(each.instance)]
        state.add_metric([*labels, each.state], 1)
        leases.add_metric(labels, each.leases)
        slots.add_metric(labels, each.parallel)
        up.add_metric(labels, each.started_ago)
        for device, size in each.held.items():
            held.add_metric([*labels, device], size)
    waiters = gauge("queue_waiters", "Requests that wait for a model.", "model")
    oldest = gauge("queue_oldest_seconds", "For how long the first of them has waited.", "model")
    for entry in live.queue:
        waiters.add_metric([entry.preset], entry.waiters)
        oldest.add_metric([entry.preset], entry.oldest)
    failed = gauge("model_failed", "1 for a model whose last load failed.", "model", "reason")
    for failure in live.failures:
        failed.add_metric([failure.preset, failure.reason], 1)
    remote = gauge("upstream_requests", "Requests that a remote server answers.", "model")
    for other in live.remotes:
        remote.add_metric([other.preset], other.leases)
    files = gauge("kv_saves", "Conversations that are saved in files.", "model")
    saved = gauge("kv_saves_bytes", "Bytes of these files.", "model")
    for saves in live.saves:
        files.add_metric([saves.preset], saves.files)
        saved.add_metric([saves.preset], saves.bytes)
    most = gauge("models_max", "Models that may be loaded at once; 0: as many as fit.")
    most.add_metric([], live.models_max)
    build = InfoMetricFamily("corral_build", "What runs.")
    build.add_metric([], {"engine": engine_version()})
    yield from (state, leases, slots, up, held, waiters, oldest, failed, remote, files, saved)
    yield from (most, build)


def _devices(devices: DevicesState) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    size = GaugeMetricFamily(
        "corral_device_bytes",
        "A device's memory as the ledger sees it (docs/memory.md).",
        labels=["device", "kind"],
    )
    stale = GaugeMetricFamily(
        "corral_device_unread_seconds", "For how long it could not be read.", labels=["device"]
    )
    used = GaugeMetricFamily(
        "corral_device_utilisation_percent", "How busy it is.", labels=["device"]
    )
    for each in devices.devices:
        for kind in DEVICE_KINDS:
            size.add_metric([each.device, kind], getattr(each, kind))
        if each.budget is not None:
            size.add_metric([each.device, "budget"], each.budget)
        stale.add_metric([each.device], each.stale or 0.0)
        if each.utilisation is not None:
            used.add_metric([each.device], each.utilisation)
    yield from (size, stale, used)


def engine_version() -> str:
    try:
        return version("llama-cpp-python")
    except PackageNotFoundError:  # an engine of the machine's own
        return ""
