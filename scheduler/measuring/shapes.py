"""A shape as plain data, as it is stored with a measurement, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, assert_never

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

Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
"""Bytes. No device has a pebibyte."""
Sizes = Annotated[list[Size], msgspec.Meta(max_length=32)]
"""One for each context."""
Context = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2048)]
Name = Annotated[str, msgspec.Meta(max_length=4096)]
SizeOf = Annotated[dict[Name, Size], msgspec.Meta(max_length=80)]


class NoShape(ValueError):
    """The plain data is that of no shape that the ledger can count with: another release wrote it,
    or somebody on the control socket."""


class _Need(msgspec.Struct, frozen=True):
    own: SizeOf
    mapped: SizeOf = {}
    passing: SizeOf = {}

    def __post_init__(self) -> None:
        if any(size > self.own.get(device, 0) for device, size in self.passing.items()):
            raise ValueError("more passes than there is")


class _Placed(msgspec.Struct, frozen=True):
    kind: Kind
    layers: Annotated[dict[Name, Count], msgspec.Meta(max_length=64)]
    needs: Annotated[list[_Need], msgspec.Meta(max_length=32)]


class _Size(msgspec.Struct, frozen=True):
    context: Context
    need: _Need


class _Fixed(msgspec.Struct, frozen=True, tag="fixed", tag_field="form"):
    sizes: Annotated[list[_Size], msgspec.Meta(min_length=1, max_length=32)]
    unreported: Size


class _Layer(msgspec.Struct, frozen=True):
    weights: Size
    cache: Sizes
    largest: Size


class _Open(msgspec.Struct, frozen=True, tag="open", tag_field="form"):
    contexts: Annotated[list[Context], msgspec.Meta(min_length=1, max_length=32)]
    layers: Annotated[list[_Layer], msgspec.Meta(min_length=1, max_length=2048)]
    devices: Annotated[list[Name], msgspec.Meta(max_length=64)]
    file: Name
    mapped: Annotated[list[Size], msgspec.Meta(max_length=2049)]
    device_compute: Sizes
    host_compute: tuple[Sizes, Sizes]
    spread_compute: tuple[Sizes, Sizes]
    host_fixed: Size
    first_device_fixed: Sizes
    receiving: Annotated[list[Name], msgspec.Meta(max_length=64)]
    measured: Annotated[list[_Placed], msgspec.Meta(max_length=256)]
    unreported: Size


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
    except (msgspec.ValidationError, OverflowError, RecursionError) as failure:
        raise NoShape(str(failure)) from failure
    match found:
        case _Fixed():
            _ascend([size.context for size in found.sizes])
        case _Open():
            _agree(found)
    return found


def _agree(found: _Open) -> None:
    """Raises NoShape where its lengths are of different shapes."""
    contexts, layers = len(found.contexts), len(found.layers)
    _ascend(found.contexts)
    if found.contexts[0] == 0:
        raise NoShape("a context of 0")
    each: list[Sequence[Any]] = [found.device_compute]
    each += [*found.host_compute, *(layer.cache for layer in found.layers)]
    each += [placed.needs for placed in found.measured]
    first, (on_each, on_host) = found.first_device_fixed, found.spread_compute
    each += [sizes for sizes in (first, on_each) if sizes]  # they may say nothing
    if any(len(sizes) != contexts for sizes in each) or len(on_each) != len(on_host):
        raise NoShape("there is not one size for each context")
    if len(found.mapped) != layers + 1:
        raise NoShape("there is not one mapped size for each count of layers")
    if len(set(found.devices)) != len(found.devices):
        raise NoShape("a device is named twice")
    if any(sum(placed.layers.values()) > layers for placed in found.measured):
        raise NoShape("a placement has more layers than there are")


def _ascend(contexts: Sequence[int]) -> None:
    if any(one >= other for one, other in pairwise(contexts)):
        raise NoShape("contexts do not ascend")


def _open_shape(found: _Open) -> OpenShape:
    return OpenShape(
        contexts=tuple(found.contexts),
        layers=tuple(
            Layer(layer.weights, tuple(layer.cache), layer.largest) for layer in found.layers
        ),
        devices=tuple(map(DeviceId, found.devices)),
        file=FileId(found.file),
        mapped=tuple(found.mapped),
        device_compute=tuple(found.device_compute),
        host_compute=(tuple(found.host_compute[0]), tuple(found.host_compute[1])),
        host_fixed=found.host_fixed,
        first_device_fixed=tuple(found.first_device_fixed),
        spread_compute=(tuple(found.spread_compute[0]), tuple(found.spread_compute[1])),
        receiving=tuple(map(DeviceId, found.receiving)),
        measured=tuple(
            (_placement(placed), tuple(map(_need, placed.needs))) for placed in found.measured
        ),
    )


def _plain_open(shape: OpenShape, unreported: int) -> _Open:
    return _Open(
        contexts=list(shape.contexts),
        layers=[_Layer(layer.weights, list(layer.cache), layer.largest) for layer in shape.layers],
        devices=list(shape.devices),
        file=shape.file,
        mapped=list(shape.mapped),
        device_compute=list(shape.device_compute),
        host_compute=(list(shape.host_compute[0]), list(shape.host_compute[1])),
        spread_compute=(list(shape.spread_compute[0]), list(shape.spread_compute[1])),
        receiving=list(shape.receiving),
        host_fixed=shape.host_fixed,
        first_device_fixed=list(shape.first_device_fixed),
        measured=[
            _Placed(placement.kind, dict(placement.layers), list(map(_plain_need, needs)))
            for placement, needs in shape.measured
        ],
        unreported=unreported,
    )


def _placement(placed: _Placed) -> Placement:
    layers = tuple((DeviceId(device), count) for device, count in placed.layers.items())
    return Placement(placed.kind, layers)


def _need(need: _Need) -> Need:
    return Need(
        tuple((DeviceId(device), size) for device, size in need.own.items()),
        tuple((FileId(file), size) for file, size in need.mapped.items()),
        tuple((DeviceId(device), size) for device, size in need.passing.items()),
    )


def _plain_need(need: Need) -> _Need:
    return _Need(dict(need.own), dict(need.mapped), dict(need.passing))
