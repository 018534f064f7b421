"""What a model would take, by its header alone: for when the engine cannot be asked. Pure.

Weights are the tensors' own bytes and the context's cache is exact where kv_cache.py knows the
architecture. The compute buffer is a rule, found on what the engine reports: within 0.1 % for
SmolLM2 (32 to 2,048 tokens a step, with flash attention and without, on the host and on a device),
within 3 % for five other architectures of attention and short convolutions, within 15 % for layers
with a state. For experts it is a guess that nothing was held against.
tests/process/test_estimates.py holds it to that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from models_registry.gguf.header import Header
from models_registry.gguf.kv_cache import CACHE_TYPES, cache_bytes, cache_layout, cells_of, seen_by

UBATCH, BATCH = 512, 2048
"""Tokens in one step, and in what is split into steps, where the options have none."""
FLOAT, HALF = 4, 2
SMALL_INPUTS = 5
"""Numbers a token that a step takes besides: positions, places in the cache, outputs."""
LARGEST_IMAGE, SMALLEST_PATCH, COLOURS = 1024, 14, 3
AUDIO_FRAMES = 1500
"""Of half a minute, as most projectors for sound take at once."""


@dataclass(frozen=True, slots=True)
class LayerEstimate:
    """`cache` at each of the contexts."""

    weights: int
    cache: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes. Fields mean what they mean in `scheduler.core.sizes.OpenShape`: the last of `layers`
    is the output layer; `device_compute` and `host_compute` are by context, `host_compute[0]` while
    no layer is computed on the host. `outputs` is a buffer of the host's in any case."""

    contexts: tuple[int, ...]
    layers: tuple[LayerEstimate, ...]
    mapped: tuple[int, ...]
    device_compute: tuple[int, ...]
    host_compute: tuple[tuple[int, ...], tuple[int, ...]]
    outputs: int
    cache_is_exact: bool


def estimate(header: Header, options: Mapping[str, str], contexts: Sequence[int]) -> Estimate:
    """`options` by their canonical long keys; `contexts` in tokens over all slots, the smallest
    first. Raises UnreadableHeader."""
    terms = [_Terms.of(header, options, context) for context in contexts]
    caches = [each.cache(header) for each in terms]
    layers = [
        LayerEstimate(weights, tuple(cache[block] for cache in caches))
        for block, weights in enumerate(header.layers[:-1])
    ]
    layers.append(LayerEstimate(header.layers[-1], tuple(0 for _ in contexts)))
    steps = [_Step.of(header, each) for each in terms]
    outputs = int(options.get("parallel", "1")) * header.vocabulary * FLOAT
    return Estimate(
        contexts=tuple(contexts),
        layers=tuple(layers),
        mapped=header.mapped,
        device_compute=tuple(step.on_device for step in steps),
        host_compute=(
            tuple(step.beside_devices for step in steps),
            tuple(step.on_host for step in steps),
        ),
        outputs=outputs,
        cache_is_exact=cache_layout(header).exact,
    )


@dataclass(frozen=True, slots=True)
class _Terms:
    """What the options say, for one context."""

    context: int
    slots: int
    unified: bool
    type_k: str
    type_v: str
    tokens: int
    """In one step."""
    swa_full: bool
    flash: bool
    embeds: bool

    @classmethod
    def of(cls, header: Header, options: Mapping[str, str], context: int) -> _Terms:
        ubatch = int(options.get("ubatch-size", str(UBATCH)))
        batch = int(options.get("batch-size", str(BATCH)))
        return cls(
            context=context,
            slots=int(options.get("parallel", "1")),
            unified=options.get("kv-unified") == "true",
            type_k=_known(options.get("cache-type-k", "f16")),
            type_v=_known(options.get("cache-type-v", "f16")),
            tokens=min(ubatch, batch, context),
            swa_full=options.get("swa-full") == "true",
            flash=options.get("flash-attn", "auto") != "off",
            embeds="true" in (options.get("embeddings"), options.get("reranking")),
        )

    def cache(self, header: Header) -> tuple[int, ...]:
        return cache_bytes(
            header, context=self.context, slots=self.slots, unified=self.unified,
            type_k=self.type_k, type_v=self.type_v, ubatch=self.tokens, swa_full=self.swa_full,
            flash=self.flash,
        )  # fmt: skip


def _known(cache_type: str) -> str:
    """A type of a later engine is smaller than f16, as all but f32 are."""
    return cache_type if cache_type in CACHE_TYPES else "f16"


# One step -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """Bytes of the buffers in which one step is computed."""

    on_host: int
    on_device: int
    beside_devices: int

    @classmethod
    def of(cls, header: Header, terms: _Terms) -> _Step:
        width = header.number("embedding_length") * FLOAT * terms.tokens
        masks = _masks(header, terms)
        most = max(
            4 * width + _feed_forward(header) * FLOAT * terms.tokens,
            _attention(header, terms, width),
            (terms.tokens if terms.embeds else terms.slots) * _output(header),
        )
        small = SMALL_INPUTS * FLOAT * terms.tokens
        # The embeddings of the step's tokens are computed on the host, and copied from there.
        return cls(masks + most + small, masks + most - width + small, masks + 2 * width + small)


def _masks(header: Header, terms: _Terms) -> int:
    """Which token sees which cell: one for all layers that see as much."""
    cells = cells_of(terms.context, terms.slots, unified=terms.unified)
    layout = cache_layout(header).layers
    windows = {0 if terms.swa_full else layer.window for layer in layout if layer.keys}
    seen = [
        seen_by(window, cells, terms.slots, unified=terms.unified, ubatch=terms.tokens)
        for window in windows
    ]
    return terms.tokens * sum(seen) * (HALF if terms.flash else FLOAT)


def _attention(header: Header, terms: _Terms, width: int) -> int:
    """Without flash attention the scores of each head are written out."""
    if terms.flash:
        return 0
    cells = cells_of(terms.context, terms.slots, unified=terms.unified)
    heads = max(header.per_block("attention.head_count"), default=0)
    keys = max((layer.keys for layer in cache_layout(header).layers), default=0)
    return 4 * width + terms.tokens * FLOAT * (cells * heads * (keys > 0) + 5 * keys)


def _feed_forward(header: Header) -> int:
    """Numbers a token between a layer's halves. A layer with a state has its inner width there."""
    key = "feed_forward_length"
    dense = 3 * max(header.per_block(key, 0), default=0)
    used = header.number("expert_used_count", 0)
    expert = header.number("expert_feed_forward_length", 0)
    experts = used * (2 * expert + header.number("embedding_length"))
    inner = header.number("ssm.inner_size", 0)
    grouped = header.number("ssm.group_count", 0) * header.number("ssm.state_size", 0)
    return max(dense, experts, 7 * inner, 3 * (inner + 2 * grouped))


def _output(header: Header) -> int:
    """Bytes of one token's way out: what is known of it, and the likelihood of each token."""
    return (4 * header.number("embedding_length") + header.vocabulary) * FLOAT


# Beside the model -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProjectorEstimate:
    weights: int
    compute: int


def estimate_projector(header: Header) -> ProjectorEstimate:
    """Of a model's projector, by the header of its own file. Its compute buffer holds one whole
    image, or half a minute of sound, at its widest between a layer's halves, with flash attention:
    within 10 % of the engine for two small projectors. Raises UnreadableHeader."""
    compute = 0
    for part in ("vision", "audio"):
        if not header.has(f"{part}.embedding_length"):
            continue
        places = _image_places(header) if part == "vision" else AUDIO_FRAMES
        width = header.number(f"{part}.embedding_length")
        inner = header.number(f"{part}.feed_forward_length", 4 * width)
        compute += places * FLOAT * (2 * width + inner)
        compute += COLOURS * FLOAT * _side(header) ** 2 if part == "vision" else 0
    return ProjectorEstimate(header.weights, compute)


def _image_places(header: Header) -> int:
    """Patches of an image of the size that the projector takes."""
    patch = max(header.number("vision.patch_size", SMALLEST_PATCH), 1)
    return (_side(header) // patch) ** 2


def _side(header: Header) -> int:
    """Pixels on an edge; models that take any size say how large a usual one is."""
    return min(header.number("vision.image_size", LARGEST_IMAGE), LARGEST_IMAGE)
