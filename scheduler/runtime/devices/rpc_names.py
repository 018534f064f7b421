"""Which RPC<n> is which server.

The engine numbers the devices of RPC servers by the order of its own `--rpc`, so that RPC0 of one
preset may be RPC1 of another. The ledger has one name for each: as if all servers were in one list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scheduler.core.sizes import DeviceId

NONE_KNOWN: Mapping[str, int] = {}


def endpoints(text: str) -> tuple[str, ...]:
    """Out of a value of `--rpc`. The engine counts one that is named twice once."""
    return tuple(dict.fromkeys(word for part in text.split(",") if (word := part.strip())))


def is_rpc(device: str) -> bool:
    """By the name that the engine gives it."""
    return device.startswith("RPC")


def machine_list(command_line: Mapping[str, object], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The servers of the whole machine: `serve`'s own command line goes before LLAMA_ARG_RPC."""
    said = command_line.get("rpc")
    return endpoints(str(said) if said is not None else environ.get("LLAMA_ARG_RPC", ""))


def union(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """All servers in the order of their first appearance; the machine's list comes first."""
    return tuple(dict.fromkeys(endpoint for one in lists for endpoint in one))


def ledger_names(
    preset_list: Sequence[str],
    all_list: Sequence[str],
    devices_each: Mapping[str, int] = NONE_KNOWN,
) -> dict[DeviceId, DeviceId]:
    """The engine's name of each device in a child with `preset_list`, and the ledger's name of it.
    A server has one device unless `devices_each` says otherwise."""
    in_all = numbered(union([all_list, preset_list]), devices_each)
    in_child = numbered(union([preset_list]), devices_each)
    return {own: in_all[key] for key, own in in_child.items()}


def numbered(
    servers: Sequence[str], devices_each: Mapping[str, int] = NONE_KNOWN
) -> dict[tuple[str, int], DeviceId]:
    """The name of each server's n-th device, when these servers are the list."""
    keys = [(server, n) for server in servers for n in range(devices_each.get(server, 1))]
    return {key: DeviceId(f"RPC{number}") for number, key in enumerate(keys)}
