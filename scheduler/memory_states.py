"""The control socket's messages about memory: what devices have, and what would fit. Bytes."""

from __future__ import annotations

import msgspec

from models_registry.ports import FitAnswer as FitAnswer
from models_registry.ports import Fitting as Fitting
from models_registry.ports import PlacementKind as PlacementKind
from models_registry.ports import PlacementWish as PlacementWish


class DeviceInstance(msgspec.Struct, frozen=True):
    """What one instance takes of a device: `predicted` when it was started, `actual` as it reports
    it (null before), `held` in the ledger."""

    instance: int
    preset: str
    held: int
    predicted: int
    actual: int | None = None


class DeviceState(msgspec.Struct, frozen=True):
    """A device as the ledger sees it. `external` is what other programs use, `leaving` are the
    bytes of instances that go (held as well), `returning` those of some that have gone and are not
    seen free yet. `available` is what a start may take: not external, held or returning, within
    the `budget` (null: there is none), and less the `margin`, which stays free.

    `utilisation` is in percent, `temperature` in degrees Celsius, `power` in watts; null where the
    driver does not tell. `stale`: the seconds for which it could not be read; its last figures
    stay, and `warning` says why.
    """

    device: str
    description: str
    kind: str
    total: int
    free: int
    external: int
    held: int
    returning: int
    leaving: int
    margin: int
    budget: int | None
    available: int
    utilisation: int | None = None
    temperature: int | None = None
    power: float | None = None
    stale: float | None = None
    warning: str = ""
    instances: list[DeviceInstance] = []


class DevicesState(msgspec.Struct, frozen=True):
    """What the `ok` of `devices` holds."""

    devices: list[DeviceState]
