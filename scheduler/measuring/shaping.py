"""From dry runs and a header to the shape that the ledger counts with. Pure.

Weights and caches come from the header, exactly and layer by layer; what is computed in, and what
a draft model and a projector take, from dry runs at the smallest and the largest context. Between
those it grows evenly: masks and scores have one entry for each token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from models_registry.gguf.header import Header, UnreadableHeader
from models_registry.gguf.kv_cache import cache_bytes
from scheduler.core.placing import second_copy
from scheduler.core.sizes import (
    HOST,
    ON_HOST,
    DeviceId,
    FileId,
    FixedShape,
    Kind,
    Layer,
    Need,
    OpenShape,
    Placement,
)
from scheduler.runtime.devices.rpc_names import is_rpc

from .dry_run import DryRun, ModelFigures
from .overheads import MIB, unreported
from .placement import gpu_layers, placed

MAPPING_MODES = frozenset({"auto", "mmap", "mmap+mlock"})
_HALF = MIB // 2
"""What rounding down to whole MiB takes away, on average."""

Runs = Mapping[tuple[Placement, int], DryRun]
"""By placement and context; for each placement the smallest and the largest context."""


@dataclass(frozen=True)
class Model:
    """A preset's files and options."""

    header: Header
    file: str
    options: Mapping[str, str]
    draft: Header | None = None

    @property
    def is_mapped(self) -> bool:
        return self.options.get("load-mode", "auto") in MAPPING_MODES

    @property
    def cache_on_host(self) -> bool:
        return self.options.get("kv-offload") == "false"

    @property
    def unreported(self) -> int:
        return unreported(self.options, self.header)

    def host_weights(self, on_devices: int) -> int:
        """What the host maps, or holds itself, with so many layers on devices."""
        if self.is_mapped:
            return self.header.mapped_bytes(on_devices)
        if not on_devices:
            return self.header.weights
        return self.header.input_bytes + sum(self.header.layers[:-on_devices])


# A placement that is the ledger's to choose ---------------------------------------------------


@dataclass(frozen=True)
class _Grown:
    """A placement's dry runs: bytes by device, at each context. `compute` is the model's own;
    `besides` is what a draft model and a projector take."""

    compute: Mapping[DeviceId, tuple[int, ...]]
    besides: Mapping[DeviceId, tuple[int, ...]]
    copies: int

    def host(self, step: int) -> int:
        return self.compute[HOST][step] + self.besides.get(HOST, _NOTHING)[step]


_NOTHING = (0,) * 64


def open_shape(
    model: Model, contexts: Sequence[int], devices: Sequence[DeviceId], runs: Runs
) -> OpenShape:
    """`runs` has HOST, and where there are devices, WHOLE of each, PARTIAL, and with several of
    them SPREAD."""
    grown = {
        placement: _grown(model, placement, contexts, runs)
        for placement in dict.fromkeys(placement for placement, _ in runs)
    }
    on_host = runs[ON_HOST, contexts[0]], runs[ON_HOST, contexts[-1]]
    caches = _caches(model, contexts, on_host)
    weights = _layer_weights(model, on_host[0])
    parts = _Parts(model, weights, caches)
    of_kind = {
        kind: [grown[each] for each in grown if each.kind is kind]
        for kind in (Kind.WHOLE, Kind.SPREAD, Kind.PARTIAL)
    }
    whole = of_kind[Kind.WHOLE] or [grown[ON_HOST]]
    spread, partial = of_kind[Kind.SPREAD], of_kind[Kind.PARTIAL]
    return OpenShape(
        contexts=tuple(contexts),
        layers=tuple(
            Layer(size, tuple(at[number] for at in parts.layer_caches), largest)
            for number, (size, largest) in enumerate(
                zip(weights, model.header.largest, strict=True)
            )
        ),
        devices=tuple(devices),
        file=FileId(model.file if model.is_mapped else ""),
        mapped=tuple(
            model.host_weights(count) + parts.copies(grown[ON_HOST].copies, count)
            for count in range(len(weights) + 1)
        ),
        device_compute=_most(partial or of_kind[Kind.WHOLE], contexts),
        host_compute=(parts.host_compute(whole), parts.host_compute(partial or whole)),
        spread_compute=(_most(spread, contexts), parts.host_compute(spread))
        if spread
        else ((), ()),
        host_fixed=model.unreported,
        first_device_fixed=_on_first_device(of_kind[Kind.WHOLE], contexts),
        receiving=tuple(device for device in devices if is_rpc(device)),
        measured=tuple(
            (placement, tuple(parts.need(placement, each, step) for step in range(len(contexts))))
            for placement, each in grown.items()
            if placement.kind is not Kind.PARTIAL
        ),
    )


@dataclass(frozen=True)
class _Parts:
    """`caches` are those of each context, layer by layer."""

    model: Model
    weights: Sequence[int]
    caches: Sequence[Sequence[int]]

    @property
    def layer_caches(self) -> Sequence[Sequence[int]]:
        """Those that go where their layers go."""
        if self.model.cache_on_host:
            return [[0] * len(self.weights)] * len(self.caches)
        return self.caches

    def host_cache(self, step: int) -> int:
        return sum(self.caches[step]) if self.model.cache_on_host else 0

    def host_compute(self, grown: Sequence[_Grown]) -> tuple[int, ...]:
        return tuple(
            max(each.host(step) for each in grown) + self.host_cache(step)
            for step in range(len(self.caches))
        )

    def copies(self, of_all: int, on_devices: int) -> int:
        """The host's share of the weights that it keeps in another layout. What it looks the
        tokens up in stays as it is, also where that is the output layer as well."""
        tied = all(tensor.name != "output.weight" for tensor in self.model.header.tensors)
        copied = [*self.weights[:-1], 0 if tied else self.weights[-1]]
        return of_all * sum(copied[: len(copied) - on_devices]) // max(sum(copied), 1)

    def need(self, placement: Placement, grown: _Grown, step: int) -> Need:
        on_devices = sum(count for _, count in placement.layers)
        begin = len(self.weights) - on_devices
        caches = self.layer_caches[step]
        host = grown.host(step) + grown.copies + self.host_cache(step) + sum(caches[:begin])
        own: list[tuple[DeviceId, int]] = []
        passes: list[tuple[DeviceId, int]] = []
        largest = self.model.header.largest
        for device, count in placement.layers:
            end = begin + count
            size = sum(self.weights[begin:end]) + sum(caches[begin:end])
            size += grown.compute.get(device, _NOTHING)[step]
            size += grown.besides.get(device, _NOTHING)[step]
            more = _passing(device, max(largest[begin:end]), size - sum(self.weights[begin:end]))
            passes += [(device, more)] if more else []
            own.append((device, size + more))
            begin = end
        weights = self.model.host_weights(on_devices)
        mapped = ((FileId(self.model.file), weights),) if self.model.is_mapped else ()
        host += self.model.unreported + (0 if mapped else weights)
        return Need((*own, (HOST, host)), mapped, tuple(passes))


def _passing(device: DeviceId, largest: int, besides: int) -> int:
    return second_copy(largest, besides) if is_rpc(device) else 0


def _grown(model: Model, placement: Placement, contexts: Sequence[int], runs: Runs) -> _Grown:
    first, last = runs[placement, contexts[0]], runs[placement, contexts[-1]]
    return _Grown(
        _between(contexts, _computed(model, placement, first), _computed(model, placement, last)),
        _between(contexts, _besides(model, first), _besides(model, last)),
        first.main.copies if model.is_mapped else 0,
    )


def _computed(model: Model, placement: Placement, run: DryRun) -> Mapping[DeviceId, int]:
    if placement.kind is not Kind.SPREAD:
        return run.main.compute
    return _pipelined(model, run.main, [device for device, _ in placement.layers])


def _pipelined(
    model: Model, main: ModelFigures, devices: Sequence[DeviceId]
) -> Mapping[DeviceId, int]:
    """With all layers on several devices the engine pipelines. Without weights it then counts the
    four copies of the last device's input once more than it allocates them (seen on every
    split)."""
    found = dict(main.compute)
    copies = 4 * 4 * int(model.options.get("ubatch-size", "512"))
    copies *= model.header.number("embedding_length", 0)
    first, last = devices[0], devices[-1]
    found[last] = max(found.get(first, 0), found.get(last, 0) - copies)
    return found


def _besides(model: Model, run: DryRun) -> Mapping[DeviceId, int]:
    found = dict(run.projector)
    if run.draft is not None:
        for device, size in _draft(model, run.draft).items():
            found[device] = found.get(device, 0) + size
    return found


def _draft(model: Model, draft: ModelFigures) -> Mapping[DeviceId, int]:
    """All on the host, or all on one device but for what is always the host's."""
    found = {
        device: size + (_HALF if size else 0) + draft.context.get(device, 0)
        for device, size in draft.weights.items()
    }
    elsewhere = [device for device, size in draft.weights.items() if size and device != HOST]
    if model.draft is not None and len(elsewhere) < 2:
        caches_on = elsewhere[0] if elsewhere else HOST
        layers = model.draft.layers
        found = {HOST: model.draft.mapped_bytes(len(layers) if elsewhere else 0) + draft.copies}
        for device in elsewhere:
            found[device] = sum(layers)
        cache = draft.cache if draft.cache is not None else sum(draft.context.values())
        found[caches_on] = found.get(caches_on, 0) + cache
    for device, size in draft.compute.items():
        found[device] = found.get(device, 0) + size
    return found


def _between(
    contexts: Sequence[int], first: Mapping[DeviceId, int], last: Mapping[DeviceId, int]
) -> Mapping[DeviceId, tuple[int, ...]]:
    width = max(contexts[-1] - contexts[0], 1)
    return {
        device: tuple(
            before + -(-(last.get(device, 0) - before) * (context - contexts[0]) // width)
            for context in contexts
        )
        for device in (*first, *(device for device in last if device not in first))
        for before in (first.get(device, 0),)
    }


def _most(grown: Sequence[_Grown], contexts: Sequence[int]) -> tuple[int, ...]:
    """What is computed in on any device that has a layer."""
    return tuple(
        max(
            (sizes[step] for each in grown for device, sizes in each.compute.items()
             if device != HOST),
            default=0,
        )
        for step in range(len(contexts))
    )  # fmt: skip


def _on_first_device(whole: Sequence[_Grown], contexts: Sequence[int]) -> tuple[int, ...]:
    """A draft model and a projector go to the first device; nothing where there are none."""
    sizes = [
        of_device
        for each in whole
        for device, of_device in each.besides.items()
        if device != HOST and any(of_device)
    ]
    if not sizes:
        return ()
    return tuple(max(each[step] for each in sizes) for step in range(len(contexts)))


def _layer_weights(model: Model, on_host: DryRun) -> list[int]:
    """Of an architecture of which the engine loads other tensors than the file has, each layer is
    made larger or smaller alike."""
    layers = list(model.header.layers)
    loaded = sum(on_host.main.weights.values())
    claimed = model.header.weights
    if abs(loaded + _HALF - claimed) <= MIB * max(len(on_host.main.weights), 1) + claimed // 200:
        return layers
    return [size * (loaded + _HALF) // max(claimed, 1) for size in layers]


def _caches(
    model: Model, contexts: Sequence[int], on_host: tuple[DryRun, DryRun]
) -> list[list[int]]:
    """Of each context, layer by layer; the output layer has none. Where the formula does not give
    what the engine says, each layer's is made larger or smaller alike."""
    said = [
        run.main.cache if run.main.cache is not None else sum(run.main.context.values())
        for run in on_host
    ]
    found = [_formula(model, context) for context in contexts]
    ends = sum(found[0]), sum(found[-1])
    if all(abs(sum_ - engine) <= MIB for sum_, engine in zip(ends, said, strict=True)):
        return found
    totals = _between(contexts, {HOST: said[0]}, {HOST: said[-1]})[HOST]
    return [_scaled(layers, total) for layers, total in zip(found, totals, strict=True)]


def _formula(model: Model, context: int) -> list[int]:
    options = model.options
    try:
        blocks = cache_bytes(
            model.header,
            context=context,
            slots=max(1, int(options.get("parallel", "1"))),
            unified=options.get("kv-unified") == "true",
            type_k=options.get("cache-type-k", "f16"),
            type_v=options.get("cache-type-v", "f16"),
            ubatch=int(options.get("ubatch-size", "512")),
            swa_full=options.get("swa-full") == "true",
            flash=options.get("flash-attn") != "off",
        )
    except (UnreadableHeader, KeyError):
        blocks = (0,) * (len(model.header.layers) - 1)
    return [*blocks, 0]


def _scaled(layers: Sequence[int], total: int) -> list[int]:
    whole = sum(layers)
    if not whole:
        return [total // max(len(layers) - 1, 1)] * (len(layers) - 1) + [0]
    return [size * total // whole for size in layers]


# A placement that the options say -------------------------------------------------------------


def fixed_shape(model: Model, runs: Mapping[int, DryRun], mapped: int) -> FixedShape:
    """`runs` has each context; `mapped` are the bytes that the host maps."""
    return FixedShape(
        tuple((context, _fixed_need(model, run, mapped)) for context, run in sorted(runs.items()))
    )


def _fixed_need(model: Model, run: DryRun, mapped: int) -> Need:
    main, own = run.main, dict(_besides(model, run))
    for device, size in _contexts_of(main).items():
        own[device] = own.get(device, 0) + size
    for device, size in _computed_as_said(model, main).items():
        own[device] = own.get(device, 0) + size
    own[HOST] = own.get(HOST, 0) + model.unreported
    for device, size in main.weights.items():
        if device == HOST and model.is_mapped:
            own[HOST] += main.copies
        elif size:
            own[device] = own.get(device, 0) + size + _HALF
    largest, passes = max(model.header.largest), dict[DeviceId, int]()
    for device, weights in main.weights.items():
        if weights and (more := _passing(device, largest, own[device] - weights - _HALF)):
            own[device], passes[device] = own[device] + more, more
    file = ((FileId(model.file), mapped),) if model.is_mapped and mapped else ()
    sizes = tuple((device, size) for device, size in own.items() if size)
    return Need(sizes, file, tuple(passes.items()))


def _computed_as_said(model: Model, main: ModelFigures) -> Mapping[DeviceId, int]:
    having = [device for device, size in main.weights.items() if size and device != HOST]
    all_layers = gpu_layers(model.options) >= len(model.header.layers)
    if len(having) < 2 or not all_layers or placed(model.options):
        return main.compute
    return _pipelined(model, main, having)


def _contexts_of(main: ModelFigures) -> Mapping[DeviceId, int]:
    """What rounding took from each device, out of what is exactly known of all."""
    having = {device: size for device, size in main.context.items() if size}
    if main.cache is None or not having:
        return having
    lost = (main.cache - sum(having.values())) // len(having)
    return {device: size + lost for device, size in having.items()}
