"""Which engine this is and which devices it sees: what a measurement is true for."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

ASK_SECONDS = 30.0
UNKNOWN = "unknown"

_VERSION = re.compile(r"^version: (.{1,200})$", re.MULTILINE)
_DEVICE = re.compile(r"^ +(\w+: .{1,200}?)(?: \(\d+ MiB, \d+ MiB free\))?$")
_LISTING = "Available devices:\n"
_TUNES_DEVICES = (
    "CUDA_",
    "NVIDIA_",
    "HIP_",
    "HSA_",
    "ROCR_",
    "ROCM_",
    "GGML_",
    "VK_",
    "SYCL_",
    "ZE_",
)


@dataclass(frozen=True, slots=True)
class Engine:
    """`version` as the program says it; `devices` with their descriptions, without what is free.
    `lists_devices`: it was asked and said which there are, be it none."""

    version: str
    devices: tuple[str, ...] = ()
    lists_devices: bool = False


_known: dict[tuple[str, int, int], Engine] = {}
_known_lock = threading.Lock()


def engine_version(program: Path) -> Engine:
    """Asked once for each version of the file. A program that does not say is `unknown`: its path,
    time and size still tell one from another."""
    try:
        found = program.stat()
    except OSError:
        return Engine(UNKNOWN)
    stamp = (str(program), found.st_mtime_ns, found.st_size)
    with _known_lock:
        if stamp not in _known:
            listed = _said(program, "--list-devices")
            _known[stamp] = Engine(
                version_in(_said(program, "--version")) or f"{UNKNOWN} {stamp}",
                devices_in(listed),
                lists_devices=_LISTING in listed,
            )
        return _known[stamp]


def version_in(text: str) -> str:
    found = _VERSION.search(text)
    return found[1].strip() if found else ""


def devices_in(text: str) -> tuple[str, ...]:
    """Without their free memory, which changes from one moment to the next."""
    _, _, listed = text.partition(_LISTING)
    found = (_DEVICE.match(line) for line in listed.splitlines())
    return tuple(match[1] for match in found if match)


def _said(program: Path, option: str) -> str:
    """Both streams; empty when it does not run."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "LD_LIBRARY_PATH") or name.startswith(_TUNES_DEVICES)
    }
    try:
        done = subprocess.run(
            [program, option],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=passed,
            timeout=ASK_SECONDS,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        logger.warning("%s %s says nothing: %s", program, option, failure)
        return ""
    return done.stdout
