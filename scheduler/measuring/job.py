"""The measure job: one row of models_registry.models.Measurement, from pending to its figures.

Safe to run twice and to be killed: the row is claimed, and finished only by who claimed it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from models_registry import measurements
from models_registry.engine_path import llama_server
from models_registry.engine_version import engine_version
from models_registry.errors import EngineMissing
from models_registry.gguf.header import UnreadableHeader
from models_registry.launch import LaunchSpec, launch_specs
from scheduler import protocol
from scheduler.client import call
from scheduler.protocol import Refused
from scheduler.runtime.engines.base import Engine

from .estimating import estimated_data
from .figures import totals
from .measuring import Measured, measure
from .shapes import plain
from .trying import NotMeasured

logger = logging.getLogger(__name__)

GONE = (
    "no preset has these options and files any more: they changed, or the file was moved. "
    "What there is now is measured by itself"
)


def measure_row(fingerprint: str, *, engine: Engine, run_folder: Path, socket: Path) -> None:
    """Nothing happens when the row is not pending, or is being worked on."""
    claimed = measurements.claim(fingerprint)
    if claimed is None:
        return
    begun = time.monotonic()
    spec = _spec_of(fingerprint, claimed.preset)
    try:
        if spec is None:
            raise NotMeasured(GONE)
        if _is_in_use(spec, socket):
            logger.info("%s is measured later: an RPC server of its is in use", spec.preset)
            measurements.postpone(claimed)
            return
        found = measure(spec, engine, run_folder)
        if _spec_of(fingerprint, claimed.preset) is None:
            raise NotMeasured(GONE)  # in the meantime: who knows which of the two was read
    except UnreadableHeader as unreadable:
        logger.warning("%s is refused: %s", claimed.preset, unreadable)
        measurements.refuse(claimed, str(unreadable), seconds=time.monotonic() - begun)
        return
    except NotMeasured as failure:
        logger.warning("%s could not be measured: %s", claimed.preset, failure)
        seconds = time.monotonic() - begun
        measurements.fail(claimed, str(failure), seconds=seconds, estimate=_estimate(spec))
        return
    devices = [each.as_row() for each in found.devices]
    seconds = time.monotonic() - begun
    shape = plain(found.shape, unreported=found.unreported)
    stored = measurements.store(
        claimed, devices, shape, engine=_version(), way=found.way, seconds=seconds
    )
    if stored:
        logger.info("%s takes %s", spec.preset, dict(totals(found.devices)))
        _report(spec, found, socket)


def _is_in_use(spec: LaunchSpec, socket: Path) -> bool:
    """An RPC server serves one process at a time: whoever asks meanwhile waits, and the server ends
    when such a one is killed. Without a scheduler nothing runs."""
    servers = _rpc_servers(spec)
    if not servers:
        return False
    try:
        running = call(socket, protocol.Snapshot(id=1))["instances"]
    except Refused:
        return False
    presets = {other.preset: other for other in launch_specs()}
    return any(servers & _servers_used(each, presets.get(each["preset"])) for each in running)


def _servers_used(instance: Mapping[str, Any], spec: LaunchSpec | None) -> set[str]:
    """An instance is told of those servers only that it uses; as long as nobody knows of which, it
    may be all of its preset's."""
    args = instance.get("args")
    if not args:
        return _rpc_servers(spec) if spec is not None else set()
    told = (value for option, value in pairwise(args) if option == "--rpc")
    return {server for value in told for server in value.split(",")}


def _rpc_servers(spec: LaunchSpec) -> set[str]:
    return set(spec.memory_options.get("rpc", "").split(",")) - {""}


def _estimate(spec: LaunchSpec | None) -> dict[str, Any] | None:
    """None when there is nothing to go by any more."""
    try:
        return None if spec is None else estimated_data(spec)
    except UnreadableHeader as unreadable:
        logger.warning("%s cannot be estimated either: %s", spec and spec.preset, unreadable)
        return None


def _spec_of(fingerprint: str, preset: str) -> LaunchSpec | None:
    """A preset that has this fingerprint now, the one that it was ordered for before others."""
    having = [spec for spec in launch_specs() if spec.memory_fingerprint == fingerprint]
    return min(having, key=lambda spec: (spec.preset != preset, spec.preset), default=None)


def _version() -> str:
    try:
        return engine_version(llama_server()).version
    except EngineMissing:
        return ""


def _report(spec: LaunchSpec, found: Measured, socket: Path) -> None:
    """A scheduler that is away reads the row when it is back."""
    told = protocol.Measured(
        id=1,
        preset=spec.preset,
        fingerprint=spec.memory_fingerprint,
        devices=dict(totals(found.devices)),
    )
    try:
        call(socket, told)
    except Refused as refusal:
        logger.info("the scheduler was not told what %s takes: %s", spec.preset, refusal.message)
