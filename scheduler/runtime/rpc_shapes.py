"""Between the engine's names of RPC devices, which each preset's own `--rpc` numbers, and the
ledger's, which number all servers of the machine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from models_registry.launch import LaunchSpec
from scheduler.core.sizes import (
    Bytes,
    DeviceId,
    FixedShape,
    Grant,
    Need,
    OpenShape,
    Placement,
    Shape,
)

from .devices.rpc_names import endpoints, ledger_names, union

Names = Mapping[DeviceId, DeviceId]


def servers_of(spec: LaunchSpec) -> tuple[str, ...]:
    return endpoints(spec.memory_options.get("rpc", ""))


def all_servers(machine: Sequence[str], specs: Iterable[LaunchSpec]) -> tuple[str, ...]:
    """The machine's own list first, then those that presets name besides, in a settled order."""
    lists = sorted({servers_of(spec) for spec in specs})
    return union([machine, *lists])


def names_for(spec: LaunchSpec, servers: Sequence[str]) -> Names:
    """Empty where they are the same."""
    found = ledger_names(servers_of(spec), servers)
    return {own: name for own, name in found.items() if own != name}


def shape_in_ledger(shape: Shape, names: Names) -> Shape:
    if not names:
        return shape
    if isinstance(shape, FixedShape):
        return FixedShape(tuple((context, _need(need, names)) for context, need in shape.sizes))
    return _open(shape, names)


def grant_for_engine(grant: Grant, names: Names) -> Grant:
    back = {name: own for own, name in names.items()}
    return replace(grant, placement=_placement(grant.placement, back)) if back else grant


def need_in_ledger(need: Need, names: Names) -> Need:
    return _need(need, names) if names else need


def _open(shape: OpenShape, names: Names) -> OpenShape:
    return replace(
        shape,
        devices=tuple(names.get(device, device) for device in shape.devices),
        measured=tuple(
            (_placement(placement, names), tuple(_need(need, names) for need in needs))
            for placement, needs in shape.measured
        ),
    )


def _placement(placement: Placement, names: Names) -> Placement:
    layers = tuple((names.get(device, device), count) for device, count in placement.layers)
    return replace(placement, layers=layers)


def _need(need: Need, names: Names) -> Need:
    own: Bytes = tuple((names.get(device, device), size) for device, size in need.own)
    return replace(need, own=own)
