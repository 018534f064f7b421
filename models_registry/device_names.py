"""Options that name devices: whether this machine has them. Told, never refused: an RPC server may
be back tomorrow, and a preset may be written for another machine."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from models_registry import ports
from models_registry.engine_path import llama_server
from models_registry.engine_version import Engine, engine_version
from models_registry.errors import EngineMissing

LISTS = ("device", "device-draft", "mmproj-device")
"""Names of devices, with commas between them."""
OVERRIDES = ("override-tensor", "override-tensor-draft")
"""Patterns, each with the buffer type of a device, as `ffn=CPU`."""
HOST = "CPU"
"""The host's buffer type."""

_HOST_DEVICE = "Host"
"""The host as the scheduler calls it; no option can name it so."""
_RPC_DEVICE = re.compile(r"RPC[0-9]+", re.IGNORECASE)
_RPC_BUFFER = re.compile(r"RPC[0-9]+\[(.+)\]")


def device_warnings(options: Mapping[str, str]) -> list[str]:
    """One sentence for each option that names what is not there; asks nobody when none names any.
    Empty also when neither the scheduler nor the engine says which devices there are."""
    if not any(options.get(key) for key in (*LISTS, *OVERRIDES)):
        return []
    known = known_devices()
    return [] if known is None else list(_told(options, known))


def known_devices() -> tuple[str, ...] | None:
    """Beside the host, by the engine's names; None when nobody knows."""
    try:
        engine = engine_version(llama_server())
    except EngineMissing:
        engine = Engine("")
    try:
        counted = ports.scheduler().devices()
    except (ports.SchedulerUnavailable, ports.SchedulerRefused):
        counted = ()
    own = [described.partition(":")[0] for described in engine.devices]
    found = dict.fromkeys([*own, *(name for name in counted if name != _HOST_DEVICE)])
    return tuple(found) if found or engine.lists_devices else None


def _told(options: Mapping[str, str], known: Collection[str]) -> Iterator[str]:
    servers = {word.strip() for word in options.get("rpc", "").split(",") if word.strip()}
    for key in LISTS:
        named = [word.strip() for word in options.get(key, "").split(",")]
        missing = [name for name in named if not _is_device(name, known, servers)]
        if missing:
            yield _sentence(key, missing, known, "none")
    for key in OVERRIDES:
        named = [each.rpartition("=")[2] for each in options.get(key, "").split(",")]
        missing = [name for name in named if not _is_buffer(name, known, servers)]
        if missing:
            yield _sentence(key, missing, known, HOST)


def _is_device(name: str, known: Collection[str], servers: Collection[str]) -> bool:
    """How many devices an RPC server has is known only while it answers."""
    if name in ("", "none") or name in known:
        return True
    return bool(servers) and _RPC_DEVICE.fullmatch(name) is not None


def _is_buffer(name: str, known: Collection[str], servers: Collection[str]) -> bool:
    if name in ("", HOST) or name in known:
        return True
    of_server = _RPC_BUFFER.fullmatch(name)
    return of_server is not None and of_server[1] in servers


def _sentence(key: str, missing: list[str], known: Collection[str], always: str) -> str:
    names = ", ".join(dict.fromkeys(missing))
    there = ", ".join([*known, always])
    return f"{key} names {names}, which this machine does not have now: it knows {there}."
