"""What presets take in memory, as far as it is measured: kept beside the offer, for the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from models_registry.launch import LaunchSpec


class Figures:
    """Bytes by device, of each preset the last that were told, with the memory fingerprint for
    which they are true."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Mapping[str, int]]] = {}

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

    def of(self, spec: LaunchSpec) -> Mapping[str, int] | None:
        """None when the preset, as it is now, is not measured."""
        fingerprint, devices = self._known.get(spec.preset, ("", {}))
        if not spec.memory_fingerprint or fingerprint != spec.memory_fingerprint:
            return None
        return devices
