"""What happens to models, in the words of llama.cpp's GET /models/sse. Pure.

The names and the nesting are that router's; what it has no word for (queued, draining, stopping,
measuring) stands in `detail`, and memory in `memory`, beside the words it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from proxy.listing import exit_code_of, most_usable, value_of
from scheduler.protocol import Ended, Happened, InstanceState

Event = dict[str, Any]


def events_of(happened: Happened, was: str) -> Iterator[Event]:
    """`was` is the preset's `status` in the last event before, or empty."""
    if happened.preset:
        yield _event(_name(_data(happened)["status"], was), happened.preset, _data(happened))
        return
    for name in happened.gone:
        yield _event("model_remove", name)
    if happened.revision is not None:
        yield _event("models_reload", "*")


def snapshot_event(models: list[Any]) -> Event:
    """Everything as it is, for who has just come, or has missed something: none of llama.cpp's."""
    return _event("snapshot", "*", {"models": models})


def activity_event() -> Event:
    """Leases, waiters, free memory or how a download stands have changed: none of llama.cpp's."""
    return _event("activity", "*")


def download_events(
    before: Mapping[str, Any], now: Mapping[str, Any], finished: Mapping[str, bool]
) -> Iterator[Event]:
    """From the entries of what is being fetched; `finished` says of those that are no more among
    them whether they are there."""
    for name, entry in now.items():
        if name not in before:
            yield _event("model_status", name, {"status": "downloading"})
        progress = entry["status"]["progress"]
        if name not in before or before[name]["status"]["progress"] != progress:
            yield _event("download_progress", name, {"progress": progress["files"]})
    for name in before:
        if name not in now:
            there = finished.get(name, False)
            yield _event("download_finished" if there else "download_failed", name)


class Part:
    """Events that are told together, each with its id or none; written once for all readers of a
    kind."""

    def __init__(self, *events: tuple[Event, str]) -> None:
        self._events = events

    @property
    def removes(self) -> bool:
        return any(event["event"] == "model_remove" for event, _ in self._events)

    def only(self, may_see: Callable[[str], bool]) -> Part | None:
        """What is told of models of which it is true, and of all together; None without any."""
        kept = [
            (event, id)
            for event, id in self._events
            if event["model"] == "*" or may_see(event["model"])
        ]
        if len(kept) == len(self._events):
            return self
        return Part(*kept) if kept else None

    @cached_property
    def frames(self) -> bytes:
        """For a stream of events: each on one line of data."""
        return b"".join(_frame(event, id) for event, id in self._events)

    @cached_property
    def messages(self) -> tuple[str, ...]:
        """For a WebSocket."""
        return tuple(_message(event, id) for event, id in self._events)


def _frame(event: Event, id: str) -> bytes:
    head = b"id: %b\n" % id.encode() if id else b""
    return head + b"data: " + msgspec.json.encode(event) + b"\n\n"


def _message(event: Event, id: str) -> str:
    return msgspec.json.encode({"id": id, **event} if id else event).decode()


def _event(name: str, model: str, data: dict[str, Any] | None = None) -> Event:
    event: Event = {"event": name, "model": model}
    return event if data is None else event | {"data": data}


def _name(status: str, was: str) -> str:
    """llama.cpp's router says `model_status` when it has started a child, else `status_change`."""
    return "model_status" if status == "loading" and was != "loading" else "status_change"


def _data(happened: Happened) -> dict[str, Any]:
    instance = most_usable(happened.instances)
    if instance is not None:
        return _running(instance)
    if happened.remote:
        return _remote(happened)
    data: dict[str, Any] = {"status": "unloaded"}
    if happened.queued:
        data["detail"] = "queued"
    elif happened.measuring:
        data["detail"] = "measuring"
    if happened.ended is not None:
        data |= _how(happened.ended)
    return data


def _running(instance: InstanceState) -> dict[str, Any]:
    value = value_of(instance.state)
    data: dict[str, Any] = {"status": value}
    if value != instance.state:
        data["detail"] = instance.state
    if instance.state == "loading" and instance.progress is not None:
        stage = "text_model"
        data["progress"] = {"stages": [stage], "current": stage, "value": instance.progress}
    if instance.state == "loaded" and instance.meta:
        data["info"] = instance.meta
    if instance.held:
        data["memory"] = instance.held
    return data


def _remote(happened: Happened) -> dict[str, Any]:
    failure = happened.failure
    if failure is None:
        return {"status": "loaded", "detail": "remote"}
    return {"status": "unloaded", "reason": f"{failure.reason}: {failure.words}"}


def _how(ended: Ended) -> dict[str, Any]:
    words = f"{ended.reason}: {ended.words}" if ended.words else ended.reason
    code = exit_code_of(ended.exit_code, ended.signal) if ended.by_itself else 0
    return {"exit_code": 1 if code is None else code, "reason": words}
