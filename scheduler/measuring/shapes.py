"""A shape as plain data, as it is stored with a measurement, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from scheduler.core.sizes import (
    DeviceId,
    FileId,
    FixedShape,
    Kind,
    Layer,
    Need,
    OpenShape,
    Placement,
    Shape,
)


class NoShape(ValueError):
    """The plain data is that of no shape: another release wrote it."""


class _Need(msgspec.Struct, frozen=True):
    own: dict[str, int]
    mapped: dict[str, int] = {}


class _Placed(msgspec.Struct, frozen=True):
    kind: str
    layers: dict[str, int]
    needs: list[_Need]


class _Size(msgspec.Struct, frozen=True):
    context: int
    need: _Need


class _Fixed(msgspec.Struct, frozen=True, tag="fixed", tag_field="form"):
    sizes: list[_Size]
    unreported: int


class _Layer(msgspec.Struct, frozen=True):
    weights: int
    cache: list[int]


class _Open(msgspec.Struct, frozen=True, tag="open", tag_field="form"):
    contexts: list[int]
    layers: list[_Layer]
    devices: list[str]
    file: str
    mapped: list[int]
    device_compute: list[int]
    host_compute: tuple[list[int], list[int]]
    spread_compute: tuple[list[int], list[int]]
    host_fixed: int
    first_device_fixed: list[int]
    measured: list[_Placed]
    unreported: int


def shape_of(stored: Mapping[str, Any]) -> Shape:
    """Raises NoShape."""
    match _read(stored):
        case _Fixed() as found:
            return FixedShape(tuple((size.context, _need(size.need)) for size in found.sizes))
        case _Open() as found:
            return _open_shape(found)


def unreported_of(stored: Mapping[str, Any]) -> int:
    """Bytes of the shape that the engine never reports (overheads.py). Raises NoShape."""
    return _read(stored).unreported


def plain(shape: Shape, *, unreported: int) -> dict[str, Any]:
    """What `shape_of` takes."""
    match shape:
        case FixedShape(sizes):
            stored: _Open | _Fixed = _Fixed(
                [_Size(context, _plain_need(need)) for context, need in sizes], unreported
            )
        case OpenShape():
            stored = _plain_open(shape, unreported)
        case _:
            assert_never(shape)
    built: dict[str, Any] = msgspec.to_builtins(stored)
    return built


def _read(stored: Mapping[str, Any]) -> _Open | _Fixed:
    try:
        found: _Open | _Fixed = msgspec.convert(stored, _Open | _Fixed)
    except msgspec.ValidationError as failure:
        raise NoShape(str(failure)) from failure
    return found


def _open_shape(found: _Open) -> OpenShape:
    return OpenShape(
        contexts=tuple(found.contexts),
        layers=tuple(Layer(layer.weights, tuple(layer.cache)) for layer in found.layers),
        devices=tuple(map(DeviceId, found.devices)),
        file=FileId(found.file),
        mapped=tuple(found.mapped),
        device_compute=tuple(found.device_compute),
        host_compute=(tuple(found.host_compute[0]), tuple(found.host_compute[1])),
        host_fixed=found.host_fixed,
        first_device_fixed=tuple(found.first_device_fixed),
        spread_compute=(tuple(found.spread_compute[0]), tuple(found.spread_compute[1])),
        measured=tuple(
            (_placement(placed), tuple(map(_need, placed.needs))) for placed in found.measured
        ),
    )


def _plain_open(shape: OpenShape, unreported: int) -> _Open:
    return _Open(
        contexts=list(shape.contexts),
        layers=[_Layer(layer.weights, list(layer.cache)) for layer in shape.layers],
        devices=list(shape.devices),
        file=shape.file,
        mapped=list(shape.mapped),
        device_compute=list(shape.device_compute),
        host_compute=(list(shape.host_compute[0]), list(shape.host_compute[1])),
        spread_compute=(list(shape.spread_compute[0]), list(shape.spread_compute[1])),
        host_fixed=shape.host_fixed,
        first_device_fixed=list(shape.first_device_fixed),
        measured=[
            _Placed(str(placement.kind), dict(placement.layers), list(map(_plain_need, needs)))
            for placement, needs in shape.measured
        ],
        unreported=unreported,
    )


def _placement(placed: _Placed) -> Placement:
    layers = tuple((DeviceId(device), count) for device, count in placed.layers.items())
    return Placement(Kind(placed.kind), layers)


def _need(need: _Need) -> Need:
    return Need(
        tuple((DeviceId(device), size) for device, size in need.own.items()),
        tuple((FileId(file), size) for file, size in need.mapped.items()),
    )


def _plain_need(need: Need) -> _Need:
    return _Need(dict(need.own), dict(need.mapped))
