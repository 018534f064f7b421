"""A child is told of those RPC servers only that it uses: each serves one process at a time, and a
child greets every server on its list as it starts. So its own RPC0 may be the machine's RPC1. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from models_registry.launch import LaunchSpec
from scheduler.core.sizes import DeviceId, Grant, Kind, Need, Placement

from .devices.rpc_names import ledger_names, numbered

Names = Mapping[DeviceId, DeviceId]
"""A child's names of RPC devices, and the machine's."""

OPTION = "--rpc"


def told_of(spec: LaunchSpec, grant: Grant, servers: Sequence[str]) -> tuple[LaunchSpec, Names]:
    """The preset as the child shall be started, and its names of the devices. With a fixed
    placement it is told of all, as its options say."""
    if OPTION not in spec.argv or grant.placement.kind is Kind.FIXED:
        return spec, {}
    used = _used(grant.placement, servers)
    names = {own: name for own, name in ledger_names(used, servers).items() if own != name}
    return replace(spec, argv=_with_servers(spec.argv, used)), names


def grant_for_child(grant: Grant, names: Names) -> Grant:
    """In the child's names."""
    back = {name: own for own, name in names.items()}
    layers = tuple((back.get(device, device), count) for device, count in grant.placement.layers)
    return replace(grant, placement=replace(grant.placement, layers=layers))


def need_in_ledger(need: Need, names: Names) -> Need:
    """In the machine's names."""
    return replace(need, own=tuple((names.get(name, name), size) for name, size in need.own))


def _used(placement: Placement, servers: Sequence[str]) -> tuple[str, ...]:
    devices = {device for device, _ in placement.layers}
    used = (server for (server, _), device in numbered(servers).items() if device in devices)
    return tuple(dict.fromkeys(used))


def _with_servers(argv: Sequence[str], servers: Sequence[str]) -> tuple[str, ...]:
    at = argv.index(OPTION)
    others = (*argv[:at], *argv[at + 2 :])
    return (*others, OPTION, ",".join(servers)) if servers else others
