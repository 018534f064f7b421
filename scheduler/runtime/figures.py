"""What presets take in memory, as far as it is measured: kept beside the offer, for the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from models_registry.launch import LaunchSpec
from scheduler.core.sizes import Bytes, DeviceId, FileId, FixedShape, Need, Shape


@dataclass(frozen=True, slots=True)
class KnownShape:
    """`estimated` by the header alone; `pending`: its measurement is still to come. `unreported`
    bytes of it, on the host, are none that a child says it has allocated. `surplus` is what earlier
    instances took beyond it, as the record knows."""

    shape: Shape
    estimated: bool = False
    pending: bool = False
    unreported: int = 0
    surplus: Bytes = ()


def is_declared(spec: LaunchSpec) -> bool:
    """Its engine cannot be measured: a person said what it takes."""
    return bool(spec.engine.declared)


def declared_shape(spec: LaunchSpec) -> KnownShape:
    sizes = sorted(spec.engine.declared.items())
    return fixed_shape(tuple((DeviceId(device), size) for device, size in sizes))


def fixed_shape(own: Bytes, mapped: tuple[tuple[FileId, int], ...] = ()) -> KnownShape:
    return KnownShape(FixedShape(((0, Need(own, mapped)),)))


class Figures:
    """Bytes by device, of each preset the last that were told, with the memory fingerprint for
    which they are true; and the shapes, as they were last read or estimated."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Mapping[str, int]]] = {}
        self._shapes: Mapping[str, KnownShape] = {}
        self._tried: dict[str, KnownShape] = {}

    def keep(self, preset: str, fingerprint: str, devices: Mapping[str, int]) -> None:
        self._known[preset] = (fingerprint, devices)

    def keep_read(
        self, specs: Iterable[LaunchSpec], by_fingerprint: Mapping[str, Mapping[str, int]]
    ) -> None:
        """What the rows say. Figures that were told since stay; presets that went go."""
        known = {}
        for spec in specs:
            found = by_fingerprint.get(spec.memory_fingerprint)
            if found is not None:
                known[spec.preset] = (spec.memory_fingerprint, found)
            elif spec.preset in self._known:
                known[spec.preset] = self._known[spec.preset]
        self._known = known

    def keep_shapes(self, by_fingerprint: Mapping[str, KnownShape]) -> None:
        """All of them, as they were read: what is not in it is not known any more."""
        self._shapes = by_fingerprint

    def keep_tried(self, fingerprint: str, known: KnownShape) -> None:
        """Of what is tried, and no row knows."""
        self._tried[fingerprint] = known

    def forget_tried(self, fingerprint: str) -> None:
        self._tried.pop(fingerprint, None)

    def shape_of(self, spec: LaunchSpec) -> KnownShape | None:
        """None when the preset, as it is now, is neither measured nor estimated, nor declared."""
        mark = spec.memory_fingerprint
        known = (self._shapes.get(mark) or self._tried.get(mark)) if mark else None
        return declared_shape(spec) if known is None and is_declared(spec) else known

    def of(self, spec: LaunchSpec) -> Mapping[str, int] | None:
        """None when the preset, as it is now, is not measured."""
        fingerprint, devices = self._known.get(spec.preset, ("", {}))
        if not spec.memory_fingerprint or fingerprint != spec.memory_fingerprint:
            return None
        return devices
