"""Who holds how many bytes on which device (L1, L4).

An instance's bytes are held from its start until it has exited: not until we decide to stop it.
"""

from __future__ import annotations

from collections.abc import Iterable

from .values import Bytes, DeviceId


class Ledger:
    def __init__(self) -> None:
        self._capacity: dict[DeviceId, int] = {}
        self._held: dict[DeviceId, int] = {}

    @property
    def limits(self) -> bool:
        """L1: a device that never reported limits nothing."""
        return bool(self._capacity)

    def read(self, capacity: Bytes) -> None:
        self._capacity = dict(capacity)

    def hold(self, need: Bytes) -> None:
        for device, size in need:
            self._held[device] = self._held.get(device, 0) + size

    def give_back(self, need: Bytes) -> None:
        for device, size in need:
            self._held[device] -= size

    def never_fits(self, need: Bytes) -> Bytes:
        """By how much it is too big for the empty machine; empty when it is not."""
        return self._short(need, {})

    def deficit(self, need: Bytes, *, leaving: Iterable[Bytes], promised: Iterable[Bytes]) -> Bytes:
        """L1: the bytes missing for `need`, once `leaving` is gone, beside what is `promised`."""
        if not self._capacity or not need:
            return ()
        taken = dict(self._held)
        for gone in leaving:
            for device, size in gone:
                taken[device] = taken.get(device, 0) - size
        for other in promised:
            for device, size in other:
                taken[device] = taken.get(device, 0) + size
        return self._short(need, taken)

    def _short(self, need: Bytes, taken: dict[DeviceId, int]) -> Bytes:
        return tuple(
            (device, missing)
            for device, size in need
            if device in self._capacity
            and (missing := size - (self._capacity[device] - taken.get(device, 0))) > 0
        )


def left_of(deficit: Bytes, freed: Bytes) -> Bytes:
    """What is still missing when so much more is free."""
    free = dict(freed)
    return tuple(
        (device, missing)
        for device, short in deficit
        if (missing := short - free.get(device, 0)) > 0
    )


def helps(deficit: Bytes, freed: Bytes) -> int:
    """How many of the missing bytes this frees; 0 when it does not help."""
    free = dict(freed)
    return sum(min(short, free.get(device, 0)) for device, short in deficit)
