"""How much of a device Corral may use (its budget), and how much stays free (its margin)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from scheduler.core.sizes import HOST, DeviceId

MIB = 1 << 20
GPU_MARGIN = 1024 * MIB
HOST_MARGIN_PART = 16
"""One part in so many of the host stays free."""

_UNITS = {
    "": 1,
    "b": 1,
    "bytes": 1,
    "mb": 10**6,
    "gb": 10**9,
    "mib": MIB,
    "gib": 1 << 30,
}
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s*([a-z]*|%)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes, or a part of the device's total in percent."""

    bytes: int = 0
    percent: Decimal | None = None

    def of(self, total: int) -> int:
        return self.bytes if self.percent is None else int(total * self.percent / 100)


@dataclass(frozen=True, slots=True)
class Limits:
    """Names of devices are kept in lower case: `cuda0` is meant where `CUDA0` is. `spelled` are
    they as somebody wrote them."""

    budgets: Mapping[str, Size] = field(default_factory=dict)
    margins: Mapping[str, Size] = field(default_factory=dict)
    margin_each: Size | None = None
    spelled: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, budgets: str = "", margins: str = "") -> Limits:
        """CORRAL_DEVICE_BUDGET and the value of --models-memory-margin. Raises ValueError."""
        each, named = parse_margins(margins)
        written = [part.partition("=")[0].strip() for part in _parts(f"{budgets},{margins}")]
        return cls(parse_budgets(budgets), named, each, {name.lower(): name for name in written})

    def budget(self, device: DeviceId, total: int) -> int | None:
        """Never more than the device has; None when none is set."""
        size = self.budgets.get(device.lower())
        return None if size is None else min(size.of(total), total)

    def margin(self, device: DeviceId, total: int) -> int:
        size = self.margins.get(device.lower(), self.margin_each)
        if size is not None:
            return min(size.of(total), total)
        return total // HOST_MARGIN_PART if device == HOST else min(GPU_MARGIN, total)

    def warnings(self, totals: Mapping[DeviceId, int]) -> tuple[str, ...]:
        """What these devices make of the budgets and margins, one sentence each. No error: a device
        may appear later."""
        there = {device.lower(): (device, total) for device, total in totals.items()}
        found = []
        for what, sizes in (("budget", self.budgets), ("margin", self.margins)):
            for name, size in sizes.items():
                if name not in there:
                    found.append(
                        f"there is no device {self.spelled.get(name, name)} for which a {what} is "
                        "set; "
                        f"there are {', '.join(totals) or 'none'}"
                    )
                elif size.of(there[name][1]) > there[name][1]:
                    device, total = there[name]
                    found.append(
                        f"the {what} of {device} ({size.of(total) // MIB:,} MiB) is larger than "
                        f"the device: {total // MIB:,} MiB count"
                    )
        return tuple(found)


def parse_budgets(text: str) -> dict[str, Size]:
    """`CUDA0=20GiB, Host=50%`. Raises ValueError with what to do."""
    sizes: dict[str, Size] = {}
    for part in _parts(text):
        name, size = _named(part, "budget", "CUDA0=20GiB", sizes)
        if size.percent is None and 0 < size.bytes < MIB:
            raise ValueError(
                f"the budget {part!r} is less than 1 MiB: give a unit, as in CUDA0=20GiB, "
                "or 0 to use nothing of the device"
            )
        sizes[name] = size
    return sizes


def parse_margins(text: str) -> tuple[Size | None, dict[str, Size]]:
    """A number of MiB for each device, or `CUDA0=512, Host=2048`; units may be given, and one
    number without a name beside them holds for the rest. Raises ValueError with what to do."""
    each: Size | None = None
    sizes: dict[str, Size] = {}
    for part in _parts(text):
        if "=" in part:
            name, size = _named(part, "margin", "CUDA0=512", sizes, bare=MIB)
            sizes[name] = size
        elif each is None:
            each = _size(part, part, "margin", "1024, or CUDA0=512", bare=MIB)
        else:
            raise ValueError(
                f"the margin {text!r} has two numbers without a device: give one for all, or "
                "name their devices, as in CUDA0=512,Host=2048"
            )
    return each, sizes


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _named(
    part: str, what: str, example: str, known: Mapping[str, Size], bare: int = 1
) -> tuple[str, Size]:
    name, equals, value = part.partition("=")
    name = name.strip().lower()
    if not equals or not name.isalnum():
        raise ValueError(f"the {what} {part!r} names no device: write it as in {example}")
    if name in known:
        raise ValueError(f"the {what} of {name} is given twice: give one")
    return name, _size(value.strip(), part, what, example, bare)


def _size(value: str, part: str, what: str, example: str, bare: int = 1) -> Size:
    if value.startswith("-"):
        raise ValueError(f"the {what} {part!r} is negative: give 0 or more, as in {example}")
    found = _SIZE.fullmatch(value)
    unit = found[2].lower() if found else ""
    if found is None or unit not in _UNITS | {"%": 0}:
        raise ValueError(
            f"the {what} {part!r} cannot be read: write a number with MiB, GiB, MB, GB or %, "
            f"as in {example}"
        )
    number = Decimal(found[1])
    if unit != "%":
        return Size(int(number * (_UNITS[unit] if unit else bare)))
    if number > 100:
        raise ValueError(f"the {what} {part!r} is more than the whole device: give 100% at most")
    return Size(percent=number)
