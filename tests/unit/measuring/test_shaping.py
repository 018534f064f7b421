"""From dry runs and a header to what the ledger counts with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from models_registry.gguf.header import Header, Tensor
from scheduler.core.placing import need_of
from scheduler.core.sizes import HOST, ON_HOST, DeviceId, FileId, Kind, Need, OpenShape, Placement
from scheduler.measuring.dry_run import DryRun, ModelFigures
from scheduler.measuring.overheads import MIB, PROCESS
from scheduler.measuring.shapes import NoShape, plain, shape_of, unreported_of
from scheduler.measuring.shaping import Model, fixed_shape, open_shape

A, B = DeviceId("CUDA0"), DeviceId("CUDA1")
FILE = "m.gguf"
CONTEXTS = (256, 512, 1024)
CACHE_PER_TOKEN = 2 * (64 + 64)
"""Bytes of a layer: keys and values of 4 heads of 16 numbers, in halves."""
WEIGHTS = (10 * MIB, 20 * MIB, 5 * MIB)
HEADER = Header(
    architecture="llama",
    values={
        "llama.embedding_length": 64, "llama.attention.head_count": 4,
        "llama.context_length": 1024,
    },
    lengths={},
    tensors=(
        Tensor("token_embd.weight", "f32", (1,), 0, 7 * MIB, 0),
        Tensor("blk.0.w", "f32", (1,), 0, 10 * MIB, 0),
        Tensor("blk.1.w", "f32", (1,), 0, 20 * MIB, 0),
        Tensor("output.weight", "f32", (1,), 0, 5 * MIB, 0),
    ),
    mapped=(42 * MIB, 37 * MIB, 17 * MIB, 7 * MIB),
    block_count=2,
    layers=WEIGHTS,
    input_bytes=7 * MIB,
)  # fmt: skip
MODEL = Model(HEADER, FILE, {"cache-ram": "0", "ubatch-size": "512"})
WHOLE_A = Placement(Kind.WHOLE, ((A, 3),))
WHOLE_B = Placement(Kind.WHOLE, ((B, 3),))
SPREAD = Placement(Kind.SPREAD, ((A, 2), (B, 1)))
PARTIAL = Placement(Kind.PARTIAL, ((A, 1),))


def run(context: int, compute: Mapping[DeviceId, int], **parts: object) -> DryRun:
    main = ModelFigures(
        weights={HOST: 42 * MIB},
        context={HOST: 0},
        compute=compute,
        cache=2 * CACHE_PER_TOKEN * context,
    )
    return replace(DryRun((), main), **parts)


def runs(model_runs: Mapping[Placement, Mapping[DeviceId, int]], **parts: object):
    """The same at the smallest context, and twice as much in what is computed in at the largest."""
    found = {}
    for placement, compute in model_runs.items():
        found[placement, CONTEXTS[0]] = run(CONTEXTS[0], compute, **parts)
        doubled = {device: 2 * size for device, size in compute.items()}
        found[placement, CONTEXTS[-1]] = run(CONTEXTS[-1], doubled, **parts)
    return found


ALL = {
    ON_HOST: {HOST: 900},
    WHOLE_A: {A: 3000, HOST: 300},
    WHOLE_B: {B: 3000, HOST: 300},
    SPREAD: {A: 6000, B: 6000, HOST: 600},
    PARTIAL: {A: 2000, HOST: 900},
}


def shape(model: Model = MODEL, **parts: object) -> OpenShape:
    return open_shape(model, CONTEXTS, (A, B), runs(ALL, **parts))


def test_layers_are_the_headers_and_their_caches_the_formulas() -> None:
    found = shape()

    assert [layer.weights for layer in found.layers] == list(WEIGHTS)
    per_layer = tuple(CACHE_PER_TOKEN * context for context in CONTEXTS)
    assert [layer.cache for layer in found.layers] == [per_layer, per_layer, (0, 0, 0)]


def test_what_is_computed_in_is_told_apart_by_kind_and_grows_evenly() -> None:
    found = shape()

    assert found.device_compute == (2000, 2667, 4000)
    assert found.host_compute == ((300, 400, 600), (900, 1200, 1800))
    assert found.spread_compute == ((6000, 8000, 12000), (600, 800, 1200))


def test_without_weights_the_last_devices_input_is_counted_once_too_often() -> None:
    copies = 4 * 4 * 512 * 64
    said = runs({**ALL, SPREAD: {A: 2 * copies, B: 3 * copies, HOST: 0}})

    found = open_shape(MODEL, CONTEXTS, (A, B), said)

    need = dict(need_of(found, SPREAD, 0).own)
    assert need[B] == WEIGHTS[2] + 2 * copies


@pytest.mark.parametrize("placement", [ON_HOST, SPREAD])
def test_what_was_measured_is_what_its_parts_add_up_to(placement: Placement) -> None:
    found = shape()

    for step in range(len(CONTEXTS)):
        measured = need_of(found, placement, step)
        summed = need_of(replace(found, measured=()), placement, step)
        assert (dict(measured.own), measured.mapped) == (dict(summed.own), summed.mapped)


def test_all_layers_on_a_device_leave_the_host_what_is_looked_up_there() -> None:
    need = need_of(shape(), WHOLE_B, 0)

    on_device = sum(WEIGHTS) + 2 * CACHE_PER_TOKEN * 256 + 3000
    assert need == Need(((B, on_device), (HOST, PROCESS + 300)), ((FileId(FILE), 7 * MIB),))


def test_a_file_that_is_not_mapped_is_held() -> None:
    found = shape(replace(MODEL, options={**MODEL.options, "load-mode": "none"}))

    assert found.file == ""
    assert need_of(found, WHOLE_A, 0).mapped == ()
    assert dict(need_of(found, WHOLE_A, 0).own)[HOST] == PROCESS + 300 + 7 * MIB


def test_a_cache_that_stays_on_the_host_is_there_wherever_the_layers_are() -> None:
    found = shape(replace(MODEL, options={**MODEL.options, "kv-offload": "false"}))

    need = need_of(found, WHOLE_A, 0)
    assert dict(need.own) == {A: sum(WEIGHTS) + 3000, HOST: PROCESS + 300 + 512 * 256}


def test_a_projector_is_on_the_first_device_and_with_no_device_on_the_host() -> None:
    besides = {A: 5 * MIB}
    found = shape(projector=besides)

    assert found.first_device_fixed == (5 * MIB,) * 3
    assert dict(need_of(found, WHOLE_A, 0).own)[A] - dict(need_of(shape(), WHOLE_A, 0).own)[A] == (
        5 * MIB
    )


def test_a_cache_that_the_engine_says_otherwise_is_made_as_large() -> None:
    said = {
        key: replace(each, main=replace(each.main, cache=64 * MIB))
        for key, each in runs(ALL).items()
    }

    found = open_shape(MODEL, CONTEXTS, (A, B), said)

    assert [layer.cache[0] for layer in found.layers] == [32 * MIB, 32 * MIB, 0]


def test_where_the_options_say_the_place_it_is_what_the_table_says() -> None:
    main = ModelFigures({A: 30 * MIB, HOST: 12 * MIB}, {A: MIB, HOST: 0}, {A: 40, HOST: 4}, 1500000)

    found = fixed_shape(MODEL, {512: DryRun(((A, "a GPU"),), main)}, 12 * MIB)

    [(context, need)] = found.sizes
    assert context == 512
    assert dict(need.own) == {A: 30 * MIB + MIB // 2 + 1500000 + 40, HOST: PROCESS + 4}
    assert need.mapped == ((FileId(FILE), 12 * MIB),)


def test_servers_need_room_for_the_copy_of_a_tensor_while_they_load() -> None:
    server = DeviceId("RPC0")
    whole, small = Placement(Kind.WHOLE, ((server, 3),)), {server: 3000, HOST: 300}
    said = runs(
        {ON_HOST: {HOST: 900}, whole: small, Placement(Kind.PARTIAL, ((server, 1),)): small}
    )

    found = open_shape(MODEL, CONTEXTS, (server,), said)

    assert (found.receiving, [layer.largest for layer in found.layers]) == (
        (server,),
        list(WEIGHTS),
    )
    besides = 2 * CACHE_PER_TOKEN * 256 + 3000
    for shape in (found, replace(found, measured=())):
        need = need_of(shape, whole, 0)
        assert need.passing == ((server, 20 * MIB - besides),)
        assert dict(need.own)[server] == sum(WEIGHTS) + 20 * MIB
    main = ModelFigures({server: 30 * MIB, HOST: 12 * MIB}, {server: MIB}, {server: 40, HOST: 4})
    [(_, fixed)] = fixed_shape(MODEL, {512: DryRun(((server, ""),), main)}, 12 * MIB).sizes
    assert fixed.passing == ((server, 19 * MIB - 40),)
    assert dict(fixed.own)[server] == 50 * MIB + MIB // 2


def test_a_shape_is_stored_as_plain_data_and_read_again() -> None:
    main = ModelFigures({HOST: 42 * MIB}, {HOST: MIB}, {HOST: 4})
    fixed = fixed_shape(MODEL, {256: DryRun((), main)}, 42 * MIB)

    for each in (shape(), shape(projector={A: 5}), fixed):
        stored = plain(each, unreported=7)
        assert (shape_of(stored), unreported_of(stored)) == (each, 7)


@pytest.mark.parametrize("stored", [{}, {"form": "open"}, {"form": "other"}, {"sizes": []}])
def test_data_of_another_release_is_no_shape(stored: dict[str, object]) -> None:
    with pytest.raises(NoShape):
        shape_of(stored)
