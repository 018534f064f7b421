"""Small models and machines for the tests of placing."""

from __future__ import annotations

from itertools import product

from scheduler.core.placing import (
    NOTHING_MAPPED,
    Free,
    Mapped,
    Tier,
    tiers,
)
from scheduler.core.sizes import (
    HOST,
    ON_HOST,
    DeviceId,
    FileId,
    Kind,
    Layer,
    OpenShape,
    Placement,
    Shape,
)

A, B, C, D = (DeviceId(name) for name in ("CUDA0", "CUDA1", "CUDA2", "CUDA3"))
FILE = FileId("model.gguf")
GIB = 1 << 30


def model(*weights: int, cache=(0,), devices=(A,), **parts) -> OpenShape:
    """Layers of such weights, the output layer last. `cache` is each layer's, per context; with
    nothing else said, nothing else takes any memory."""
    nothing = (0,) * len(cache)
    parts = {
        "contexts": tuple(4096 << step for step in range(len(cache))),
        "file": FILE,
        "mapped": (0,) * (len(weights) + 1),
        "device_compute": nothing,
        "host_compute": (nothing, nothing),
        **parts,
    }
    layers = tuple(Layer(size, tuple(cache)) for size in weights)
    return OpenShape(layers=layers, devices=tuple(devices), **parts)


def whole(device: DeviceId, layers: int) -> Placement:
    return Placement(Kind.WHOLE, ((device, layers),))


def spread(**layers: int) -> Placement:
    return Placement(Kind.SPREAD, runs(layers))


def partial(**layers: int) -> Placement:
    return Placement(Kind.PARTIAL, runs(layers))


def runs(layers: dict[str, int]):
    """`a=2, b=3`: two layers on A, then three on B."""
    devices = {"a": A, "b": B, "c": C, "d": D}
    return tuple((devices[name], count) for name, count in layers.items())


def free(host: int | None = None, **sizes: int) -> dict[DeviceId, int]:
    found = dict(runs(sizes))
    return found if host is None else {**found, HOST: host}


def all_runs(shape: OpenShape, count: int):
    """Every way to give the devices so many layers."""
    for counts in product(range(count + 1), repeat=len(shape.devices)):
        if sum(counts) == count:
            yield tuple(run for run in zip(shape.devices, counts, strict=True) if run[1])


def all_placements(shape: OpenShape):
    for count in range(1, len(shape.layers) + 1):
        for runs in all_runs(shape, count):
            if count < len(shape.layers):
                yield Placement(Kind.PARTIAL, runs)
            else:
                yield Placement(Kind.WHOLE if len(runs) == 1 else Kind.SPREAD, runs)
    yield ON_HOST


def best(shape: Shape, roomy: Free, mapped: Mapped = NOTHING_MAPPED) -> Tier | None:
    """The best there would be with every unpinned instance gone. None: it is too large."""
    return next(tiers(shape, roomy, roomy, mapped=mapped, mapped_roomy=mapped), None)
