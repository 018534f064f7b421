"""What runs elsewhere: no child, no room, no load; a limit of requests, and a circuit breaker.

A remote stands in the fleet as an instance that is always loaded and that no rule of children sees.
So its requests wait, come by turns and are granted like all others (A7, A8).

After some failures in a row it is left alone for a back-off (A4's), and whoever asks is refused.
Then one request tries; the others wait for what becomes of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from .books import Books
from .decisions import Decision
from .granting import Granting
from .instances import Instance
from .values import Code, Exit, PresetName, PresetSpec, Refusal, RequestId

ONE_TRIES = 1


class Remotes:
    def __init__(self, books: Books, granting: Granting) -> None:
        self._broken_after = books.config.remote_broken_after
        self._fleet = books.fleet
        self._queue = books.queue
        self._failures = books.failures
        self._presets = books.presets
        self._granting = granting
        self._in_a_row: dict[PresetName, int] = {}

    def take_over(self, edited: Mapping[PresetName, PresetSpec], now: float) -> None:
        """An edit counts from the next grant on: a remote need not be started anew. One of another
        address, or with another key, has not failed yet."""
        remotes = self._fleet.remotes
        for name in [*remotes]:
            if name not in edited or not edited[name].remote:
                self._fleet.drop_remote(name)
                self._in_a_row.pop(name, None)
                self._queue.touched[name] = None
        for name, spec in edited.items():
            if not spec.remote:
                continue
            before = remotes.get(name)
            if before is None:
                self._fleet.set_remote(spec, now, limit=spec.parallel)
                continue
            if before.preset.fingerprint != spec.fingerprint:
                self._in_a_row.pop(name, None)
            if before.preset != spec:
                before.preset = spec
                self._set_limit(before)

    def hear(self, request: RequestId, failed: str, now: float) -> list[Decision]:
        """What was granted before it was last given up says nothing new of it."""
        instance = self._fleet.leases.get(request)
        if instance is None or self._fleet.remotes.get(instance.preset.name) is not instance:
            return []
        name = instance.preset.name
        if not failed:
            if self._in_a_row.pop(name, None) or name in self._failures.view:
                self._failures.clear(name)
                self._set_limit(instance)
            return []
        self._in_a_row[name] = self._in_a_row.get(name, 0) + 1
        if name in self._failures.view or self._in_a_row[name] >= self._broken_after:
            return self._give_up(instance, failed, now)
        return []

    def _give_up(self, instance: Instance, failed: str, now: float) -> list[Decision]:
        preset, exit = instance.preset, Exit(words=failed)
        failure = self._failures.record(preset.name, Code.UPSTREAM_UNAVAILABLE, exit, now)
        # Answers that still come are of before, and shall not keep anybody from trying.
        self._fleet.set_remote(preset, now, limit=ONE_TRIES)
        told = Refusal(Code.UPSTREAM_UNAVAILABLE, failure.until - now, exit)
        return self._granting.refuse_all(preset.name, told)

    def _set_limit(self, instance: Instance) -> None:
        failing = instance.preset.name in self._failures.view
        instance.limit = ONE_TRIES if failing else instance.preset.parallel
        self._fleet.touched[instance.id] = instance
