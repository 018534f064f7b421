"""When the waiters of an entry have waited too long, on the entry's own clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from .line import Place, Waiter

_SLACK = 64  # dead items that are not worth a clean-up


class Expiries:
    """Waiters with an expiry, the next first. Leaving is free: what is dead is dropped when it
    surfaces, or when the dead outnumber the living."""

    __slots__ = ("_in_order", "_shortened")

    def __init__(self) -> None:
        self._in_order: deque[Waiter] = deque()
        self._shortened: deque[Waiter] = deque()  # whose expiry came nearer, in that order

    def add(self, waiter: Waiter) -> None:
        """Its expiry is no earlier than that of those before it."""
        if waiter.expires is not None:
            self._in_order.append(waiter)

    def shorten(self, waiter: Waiter, expires: float) -> None:
        """It expires then, unless it does earlier; later ones are shortened to later times."""
        if waiter.expires is not None and expires < waiter.expires:
            waiter.expires = expires
            self._shortened.append(waiter)

    def next(self) -> Waiter | None:
        in_order = self._in_order
        first = in_order[0] if in_order and in_order[0].waits else _first(in_order)
        if not self._shortened:
            return first
        shortened = _first(self._shortened)
        if first is None or shortened is None:
            return first or shortened
        return shortened if _expiry(shortened) < _expiry(first) else first

    def clean(self, living: int) -> None:
        if len(self._in_order) + len(self._shortened) > 2 * living + _SLACK:
            self._in_order = deque(item for item in self._in_order if item.waits)
            self._shortened = deque(item for item in self._shortened if item.waits)

    def sort(self, waiters: Iterable[Waiter]) -> None:
        """These are all, whatever their expiries are."""
        living = (waiter for waiter in waiters if waiter.expires is not None)
        self._in_order = deque(sorted(living, key=_expiry))
        self._shortened.clear()


def _first(waiters: deque[Waiter]) -> Waiter | None:
    while waiters and not waiters[0].waits:
        waiters.popleft()
    return waiters[0] if waiters else None


def _expiry(waiter: Waiter) -> tuple[float, Place]:
    return waiter.expires or 0.0, waiter.place
