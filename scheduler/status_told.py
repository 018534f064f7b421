"""All that is live, as lines for a person: devices, instances, failures, the queue. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from models_registry.downloads.shown import bytes_told, time_told
from models_registry.terminal import table

from .live_states import Failure, InstanceState, QueueEntry, RemoteState, SnapshotState
from .memory_states import DeviceState
from .ports import HELD_UP

NONE = "-"
JOBS_SILENT_SECONDS = 30.0
"""The jobs process shows life every two."""


def status_lines(
    state: SnapshotState, devices: Sequence[DeviceState], width: int | None = None
) -> list[str]:
    """No line is longer than `width` columns. Sections of which there is nothing are left out."""
    sections = [
        [scheduler_line(state)],
        _devices(devices, width),
        _instances(state.instances, width),
        _remotes(state.remotes, width),
        _failures(state.failures, width),
        _problems(state.problems, width),
        queue_lines(state.queue, width),
    ]
    told = [section for section in sections if section]
    return [line for number, section in enumerate(told) for line in _apart(number, section)]


def scheduler_line(state: SnapshotState) -> str:
    limit = state.models_max or "no limit"
    stopping = ", stopping" if state.shutting_down else ""
    has_jobs = state.jobs_ago is not None and state.jobs_ago < JOBS_SILENT_SECONDS
    jobs = "" if has_jobs else ", no jobs process"
    loaded = f"{len(state.instances)} of {limit} models loaded"
    return f"scheduler pid {state.pid}, {loaded}{jobs}{stopping}"


def queue_lines(queue: Sequence[QueueEntry], width: int | None = None) -> list[str]:
    """Empty when nobody waits."""
    heads = ("QUEUE", "WAITING", "OLDEST", "ABOUT", "WAITS FOR")
    rows = [
        (
            entry.preset,
            str(entry.waiters),
            time_told(entry.oldest),
            NONE if entry.seconds is None else f"{time_told(entry.seconds)} more",
            holdup_told(entry),
        )
        for entry in queue
    ]
    return _table(heads, rows, width, right={1, 2, 3})


def holdup_told(entry: QueueEntry) -> str:
    if entry.holdup is None:
        return NONE
    told = HELD_UP.get(entry.holdup, "its model is being loaded")
    if entry.victims:
        told += f" ({', '.join(victim.preset for victim in entry.victims)})"
    if entry.drain_in is not None:
        told += f"; one takes no new request in {time_told(entry.drain_in)} at the latest"
    return told


def state_told(instance: InstanceState) -> str:
    if instance.state == "loading" and instance.progress is not None:
        return f"loading {100 * instance.progress:.0f} %"
    return instance.state


def failure_told(failure: Failure) -> str:
    """Why, how its child ended, and when it may be tried again."""
    told = failure.reason.replace("_", " ")
    if failure.signal is not None:
        told += f" (signal {failure.signal})"
    elif failure.exit_code is not None:
        told += f" (exit code {failure.exit_code})"
    if failure.words:
        told += f": {' '.join(failure.words.split())}"
    if failure.retry_after > 0:
        told += f"; tried again in {time_told(failure.retry_after)}"
    return told


def _devices(devices: Sequence[DeviceState], width: int | None) -> list[str]:
    heads = ("DEVICE", "HELD", "EXTERNAL", "FREE", "OF", "MARGIN", "BUDGET", "AVAILABLE", "NOTES")
    rows = [
        (
            device.device,
            bytes_told(device.held),
            bytes_told(device.external),
            bytes_told(device.free),
            bytes_told(device.total),
            bytes_told(device.margin),
            NONE if device.budget is None else bytes_told(device.budget),
            bytes_told(max(0, device.available)),
            _device_notes(device),
        )
        for device in devices
    ]
    return _table(heads, rows, width, right={1, 2, 3, 4, 5, 6, 7})


def _device_notes(device: DeviceState) -> str:
    notes = [
        f"{bytes_told(size)} {how}"
        for how, size in (("leaving", device.leaving), ("returning", device.returning))
        if size
    ]
    if device.utilisation is not None:
        notes.append(f"{device.utilisation} % busy")
    if device.stale is not None:
        notes.append(f"not read for {time_told(device.stale)}")
    if device.warning:
        notes.append(device.warning)
    return ", ".join(notes)


def _instances(instances: Iterable[InstanceState], width: int | None) -> list[str]:
    heads = ("MODEL", "STATE", "SLOTS", "UP", "USED", "MEMORY", "NOTES")
    rows = [
        (
            instance.preset,
            state_told(instance),
            f"{instance.leases}/{instance.parallel}",
            time_told(instance.started_ago),
            "now" if instance.leases else f"{time_told(instance.used_ago)} ago",
            _memory(instance.held),
            _instance_notes(instance),
        )
        for instance in instances
    ]
    return _table(heads, rows, width, right={2, 3})


def _memory(held: Mapping[str, int]) -> str:
    each = [f"{device} {bytes_told(size)}" for device, size in held.items() if size]
    return " + ".join(each) or NONE


def _instance_notes(instance: InstanceState) -> str:
    notes = [
        word
        for word, is_so in (("pinned", instance.pinned), ("options changed", instance.stale))
        if is_so
    ]
    if instance.abandoned:
        notes.append(f"{instance.abandoned} abandoned")
    return ", ".join(notes)


def _remotes(remotes: Iterable[RemoteState], width: int | None) -> list[str]:
    heads = ("REMOTE", "REQUESTS", "USED")
    rows = [
        (
            remote.preset,
            f"{remote.leases}/{remote.parallel}",
            "never" if remote.used_ago is None else f"{time_told(remote.used_ago)} ago",
        )
        for remote in remotes
    ]
    return _table(heads, rows, width, right={1})


def _failures(failures: Iterable[Failure], width: int | None) -> list[str]:
    rows = [
        (failure.preset, f"{time_told(failure.failed_ago)} ago", failure_told(failure))
        for failure in failures
    ]
    return _table(("FAILED", "WHEN", "WHY"), rows, width, right={1})


def _problems(problems: Mapping[str, str], width: int | None) -> list[str]:
    rows = [(preset, " ".join(problem.split())) for preset, problem in problems.items()]
    return _table(("CANNOT BE STARTED", "WHY"), rows, width, right=set())


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, *, right: set[int]
) -> list[str]:
    return table([heads, *rows], width=width, right=frozenset(right)) if rows else []


def _apart(number: int, section: list[str]) -> list[str]:
    return ["", *section] if number else section
