"""What an engine with a `measure` role says of itself, on its state line. Pure.

llama.cpp's newer router starts a child with LLAMA_SERVER_CHILD_ROLE=measure, and that child reports
`measuring` with what the smallest context takes (`min`) and what the largest that fits now takes
(`max`). The build that Corral installs has no such role and ignores the variable. Of a payload in
any other shape nothing is believed: the table of the fit stage is then the next way.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.runtime.child_lines import PREFIX

from .figures import DeviceFigures, Nonsense, checked

_STATE = PREFIX.decode() + "state:"


class _Device(msgspec.Struct, frozen=True):
    name: str
    model: int
    context: int
    compute: int


class _Breakdown(msgspec.Struct, frozen=True):
    devices: list[_Device]


class _Payload(msgspec.Struct, frozen=True):
    min: _Breakdown


class _Said(msgspec.Struct, frozen=True):
    state: str
    payload: Any = None


_decode = msgspec.json.Decoder(_Said).decode


def reported_figures(line: str) -> tuple[DeviceFigures, ...]:
    """Out of a `measuring` line. Empty for every other line, and for a payload that is no figures:
    it reports that it has begun in the same way."""
    if not line.startswith(_STATE):
        return ()
    try:
        said = _decode(line.removeprefix(_STATE))
        if said.state != "measuring":
            return ()
        found = msgspec.convert(said.payload, _Payload)
        return checked(
            DeviceFigures(each.name, each.model, each.context, each.compute, weights=each.model)
            for each in found.min.devices
        )
    except (msgspec.DecodeError, RecursionError, Nonsense):
        return ()


def is_ready(line: str) -> bool:
    """It has loaded: whatever it is, it does not measure."""
    if not line.startswith(_STATE):
        return False
    try:
        return _decode(line.removeprefix(_STATE)).state == "ready"
    except (msgspec.DecodeError, RecursionError):
        return False
