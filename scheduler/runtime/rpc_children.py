"""A child is told of those RPC servers only that it uses: each serves one process at a time, and a
child greets every server on its list as it starts. So its own RPC0 may be the machine's RPC1. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from models_registry.launch import LaunchSpec
from scheduler.core.sizes import DeviceId, Grant, Kind, Need

from .devices.rpc_names import ledger_names, numbered

Names = Mapping[DeviceId, DeviceId]
"""A child's names of RPC devices, and the machine's."""

OPTION = "--rpc"
_DEVICES = "--device"
_NAMES_DEVICES = frozenset({_DEVICES, "--device-draft", "--mmproj-device"})
_SPLIT, _MAIN = "--tensor-split", "--main-gpu"
"""Options that count the devices, servers first, where they are not named."""
_BUFFERS = frozenset({"--override-tensor", "--override-tensor-draft"})
"""They name a server in a buffer: `RPC0[host:port]`, the same in every child."""
_BETWEEN_SHARES = re.compile(r"[,/]")


def told_of(spec: LaunchSpec, grant: Grant, servers: Sequence[str]) -> tuple[LaunchSpec, Names]:
    """The preset as the child shall be started, and its names of the devices. A fixed placement
    is told of all where nobody knows what it takes."""
    if OPTION not in spec.argv:
        return spec, {}
    if grant.placement.kind is not Kind.FIXED:
        devices = {device for device, _ in grant.placement.layers}
        spec = replace(spec, argv=_without_a_choice(spec.argv))
    elif not grant.need:
        return spec, {}
    else:
        devices = {device for device, _ in grant.need.own} | _named(spec.argv, servers)
    used = _used(devices, servers)
    names = {own: name for own, name in ledger_names(used, servers).items() if own != name}
    argv = _renamed(spec.argv, {name: own for own, name in names.items()})
    argv = _recounted(argv, _kept_of(servers, used))
    return replace(spec, argv=_with_servers(argv, used)), names


def grant_for_child(grant: Grant, names: Names) -> Grant:
    """In the child's names."""
    back = {name: own for own, name in names.items()}
    layers = tuple((back.get(device, device), count) for device, count in grant.placement.layers)
    return replace(grant, placement=replace(grant.placement, layers=layers))


def need_in_ledger(need: Need, names: Names) -> Need:
    """In the machine's names."""
    return replace(need, own=tuple((names.get(name, name), size) for name, size in need.own))


def _named(argv: Sequence[str], servers: Sequence[str]) -> set[DeviceId]:
    """The devices that its own options name, or count and give something."""
    lists = (value for option, value in pairwise(argv) if option in _NAMES_DEVICES)
    named = {DeviceId(name.strip()) for value in lists for name in value.split(",")}
    devices = {device: server for (server, _), device in numbered(servers).items()}
    counted = () if _lists_devices(argv) else tuple(devices)
    for option, value in pairwise(argv):
        if option == _SPLIT:
            shares = _BETWEEN_SHARES.split(value)
            named |= {d for d, share in zip(counted, shares, strict=False) if share.strip("0. ")}
        elif option == _MAIN and value.isdecimal():
            named |= set(counted[int(value) : int(value) + 1])
        elif option in _BUFFERS:
            named |= {device for device, server in devices.items() if f"[{server}]" in value}
    return named


def _lists_devices(argv: Sequence[str]) -> bool:
    """Then its options count those on its list, which it is told of all."""
    return _DEVICES in argv


def _without_a_choice(argv: Sequence[str]) -> tuple[str, ...]:
    """Without the list of devices that it might have been put on: the engine ends at one that it
    does not know, although the grant's list stands behind."""
    if _DEVICES not in argv:
        return tuple(argv)
    at = argv.index(_DEVICES)
    return (*argv[:at], *argv[at + 2 :])


def _kept_of(servers: Sequence[str], used: Collection[str]) -> tuple[bool, ...]:
    return tuple(server in used for server in servers)


def _recounted(argv: Sequence[str], kept: Sequence[bool]) -> tuple[str, ...]:
    """With shares and numbers as they are without the servers that are not `kept`."""
    told = list(argv)
    for at, (option, value) in enumerate(pairwise(argv), start=1):
        if _lists_devices(argv):
            break
        if option == _SPLIT:
            shares = _BETWEEN_SHARES.split(value)
            gone = {number for number, stays in enumerate(kept) if not stays}
            told[at] = ",".join(share for n, share in enumerate(shares) if n not in gone) or "0"
        elif option == _MAIN and value.isdecimal():
            told[at] = str(int(value) - sum(not stays for stays in kept[: int(value)]))
    return tuple(told)


def _renamed(argv: Sequence[str], back: Names) -> tuple[str, ...]:
    """With its own options in the child's names too."""
    renamed = list(argv)
    for at, (option, value) in enumerate(pairwise(argv), start=1):
        if option in _NAMES_DEVICES:
            names = (DeviceId(name.strip()) for name in value.split(","))
            renamed[at] = ",".join(back.get(name, name) for name in names)
    return tuple(renamed)


def _used(devices: Collection[DeviceId], servers: Sequence[str]) -> tuple[str, ...]:
    used = (server for (server, _), device in numbered(servers).items() if device in devices)
    return tuple(dict.fromkeys(used))


def _with_servers(argv: Sequence[str], servers: Sequence[str]) -> tuple[str, ...]:
    """Where the servers stood: the engine reads one option after the other, and knows their devices
    from there on only."""
    at = argv.index(OPTION)
    told = (OPTION, ",".join(servers)) if servers else ()
    return (*argv[:at], *told, *argv[at + 2 :])
