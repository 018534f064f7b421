"""Who waits for an answer, and who holds which lease: the owner's side of the control socket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from scheduler.core.values import NO_TENANT, Kind, Priority, Refusal, RequestId, TenantId
from scheduler.protocol import Refused

from .instance_run import InstanceRun
from .refusals import refused
from .remote_run import RemoteRun

Run = InstanceRun | RemoteRun
"""Who answers a request."""

Answer = Callable[[Run | Refused], None]
"""Called once, in the owner's turn: with the instance, or with why not."""

_WITHOUT_LEASE = frozenset({Kind.LOAD, Kind.STARTUP})


@dataclass(slots=True)
class Asked:
    """One request from its arrival to the end of its lease. `run` is None while it waits."""

    preset: str
    answer: Answer
    kind: Kind
    arrived: float
    tenant: TenantId = NO_TENANT
    priority: Priority = Priority.NORMAL
    text: str = ""  # what its client knows it by
    run: Run | None = None
    granted_at: float = 0.0
    draining: Callable[[bool], None] | None = None  # tells its holder whether the instance drains

    @property
    def in_the_log(self) -> dict[str, str]:
        """The fields that a line about it carries."""
        said = {"request_id": self.text, "team": str(self.tenant), "model": self.preset}
        return {name: value for name, value in said.items() if value}


class Waiting:
    def __init__(self) -> None:
        self._asked: dict[RequestId, Asked] = {}
        self._by_text: dict[str, dict[RequestId, None]] = {}

    @property
    def newest(self) -> tuple[int, RequestId | None]:
        """How many there are, and who came last: another one after each arrival."""
        return len(self._asked), next(reversed(self._asked), None)

    def add(self, request: RequestId, asked: Asked) -> None:
        self._asked[request] = asked
        if asked.text:
            self._by_text.setdefault(asked.text, {})[request] = None

    def waits(self, request: RequestId) -> bool:
        asked = self._asked.get(request)
        return asked is not None and asked.run is None

    def get(self, request: RequestId) -> Asked | None:
        return self._asked.get(request)

    def waiters_of(self, preset: str) -> list[tuple[str, str]]:
        """Who waits for it, in no order: the team, and what the client knows its request by."""
        return [
            (str(asked.tenant), asked.text)
            for asked in self._asked.values()
            if asked.run is None and asked.text and asked.preset == preset
        ]

    def latest(self, text: str) -> RequestId | None:
        """Of those that their clients know by `text` (which they may have chosen themselves)."""
        return next(reversed(self._by_text.get(text, {})), None)

    def granted(self, request: RequestId, run: Run) -> None:
        """Harmless for one who has left: the core hears of that by an event of its own."""
        asked = self._asked.get(request)
        if asked is None or asked.run is not None:
            return
        if asked.kind in _WITHOUT_LEASE:
            self._forget(request)
        else:
            asked.run = run
        asked.answer(run)

    def tell_draining(self, requests: Iterable[RequestId], *, draining: bool) -> None:
        """Those of them that want to know: their instance takes no new one, or does again."""
        for request in requests:
            asked = self._asked.get(request)
            if asked is not None and asked.draining is not None:
                asked.draining(draining)

    def rejected(self, request: RequestId, refusal: Refusal, known: Sequence[str]) -> Asked | None:
        """What it waited for; None when it has left."""
        asked = self._asked.get(request)
        if asked is None or asked.run is not None:
            return None
        self._forget(request)
        asked.answer(refused(refusal, asked.preset, known))
        return asked

    def presets(self) -> frozenset[str]:
        """Those that somebody waits for."""
        return frozenset(asked.preset for asked in self._asked.values() if asked.run is None)

    def waits_for(self, preset: str) -> bool:
        """Whether anybody does."""
        return any(a.run is None and a.preset == preset for a in self._asked.values())

    def tenants(self, preset: str) -> frozenset[str]:
        """Of those who wait for it."""
        waiting = (asked for asked in self._asked.values() if asked.run is None)
        return frozenset(asked.tenant for asked in waiting if asked.preset == preset)

    def refuse(self, preset: str, refusal: Refused) -> list[RequestId]:
        """Who waited for it, and leaves with this answer."""
        asking = [
            (request, asked)
            for request, asked in self._asked.items()
            if asked.preset == preset and asked.run is None
        ]
        for request, asked in asking:
            self._forget(request)
            asked.answer(refusal)
        return [request for request, _ in asking]

    def leave(self, request: RequestId) -> Asked | None:
        """It waits no more and holds nothing more. What it was, if it is known."""
        return self._forget(request)

    def _forget(self, request: RequestId) -> Asked | None:
        asked = self._asked.pop(request, None)
        if asked is not None and asked.text:
            same = self._by_text[asked.text]
            del same[request]
            if not same:
                del self._by_text[asked.text]
        return asked
