"""What a llama-server that has loaded everything says it has allocated, device by device."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from models_registry.engine_path import llama_server
from models_registry.launch import LaunchSpec

MIB = 1 << 20
Size = TypeVar("Size", int, float)

_BUFFER = re.compile(r"(\w+)(?:\[[^\]]*\])? (?:model|KV|RS|compute) buffer size = +([\d.]+) MiB")
_LAST_ROW = re.compile(r"- (\w+)[^|]*\|[^|]*?(\d+) = +\d+ \+ +\d+ \+ +\d+\)?[^|=]*\|")


@dataclass(frozen=True)
class Loaded:
    allocated: Mapping[str, float]
    """Bytes by device, from the lines of each buffer."""
    at_exit: Mapping[str, int]
    """Bytes by device, from the table at its exit: whole MiB."""
    log: str


def loaded(spec: LaunchSpec, *further: str) -> Loaded:
    """Starts it, with `further` options behind its own, waits until it is ready, asks it to exit,
    and reads its log."""
    folder = Path(tempfile.mkdtemp(prefix="le-"))
    try:
        log = _log_of(spec, further, folder)
    finally:
        shutil.rmtree(folder)
    allocated: dict[str, float] = defaultdict(float)
    for device, mib in _BUFFER.findall(log):
        allocated[_device(device)] += float(mib) * MIB
    at_exit: dict[str, int] = defaultdict(int)
    _, _, last = log.rpartition("| memory breakdown [MiB]")
    for device, mib in _LAST_ROW.findall(last):
        at_exit[_device(device)] += int(mib) * MIB
    return Loaded(_taken(allocated), _taken(at_exit), log)


def _taken(sizes: Mapping[str, Size]) -> dict[str, Size]:
    """Without the devices that nothing is on."""
    return {device: size for device, size in sizes.items() if size}


def _device(buffer: str) -> str:
    """The host's buffers have several names: mapped, repacked, pinned."""
    return "Host" if buffer.startswith("CPU") else buffer


def _log_of(spec: LaunchSpec, further: Sequence[str], folder: Path) -> str:
    process = subprocess.Popen(
        [
            *(
                llama_server(),
                *spec.argv,
                *further,
                "--host",
                str(folder / "a.sock"),
                "--port",
                "1",
            ),
            # Several threads wait for each other by spinning, for which others pay on few cores
            *("--offline", "--no-ui", "--log-colors", "off", "--slots", "-lv", "4", "-t", "1"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LLAMA_SERVER_ROUTER_PORT": "1"},
        text=True,
        errors="replace",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines = []
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            lines.append(line)
            if "all slots are idle" in line:  # its loop runs: from now on it heeds an exit
                process.stdin.write("cmd_router_to_child:exit\n")
                process.stdin.flush()
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    return "".join(lines)
