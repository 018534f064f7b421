"""The article on Ollama's scheduler: its four outcomes on 8 GB and 16 GB, and its figures of memory
beside the true ones that docs/deviations.md tells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from models_registry.gguf.estimate import estimate
from models_registry.gguf.kv_cache import cache_bytes, cache_layout
from scheduler.core.sizes import HOST, DeviceId, FileId, Kind, Layer, OpenShape, Placement
from tests.support.article_models import GB, MODELS, Model
from tests.unit.core.shapes import best

MIB = 1 << 20
GPU = DeviceId("GPU")
DEVIATIONS = Path(__file__).resolve().parents[2] / "docs" / "deviations.md"


def shape(model: Model, context: int) -> OpenShape:
    found = estimate(model.header, {"parallel": "1"}, [context])
    return OpenShape(
        contexts=found.contexts,
        layers=tuple(Layer(each.weights, each.cache) for each in found.layers),
        devices=(GPU,),
        file=FileId("model"),
        mapped=found.mapped,
        device_compute=found.device_compute,
        host_compute=found.host_compute,
        host_fixed=found.outputs,
    )


def placed(name: str, context: int = 2048) -> Placement | None:
    """On an empty machine with 8 GB on the GPU and 16 GB on the host."""
    tier = best(shape(MODELS[name], context), {GPU: 8 * GB, HOST: 16 * GB})
    return tier.placements[0] if tier is not None else None


@pytest.mark.parametrize("name", ["Qwen3-4B", "Qwen3-8B", "Llama3-8B"])
def test_what_fits_is_whole_on_the_gpu(name: str) -> None:
    found = placed(name)

    assert found is not None
    assert found.kind is Kind.WHOLE


def test_what_is_a_little_too_large_is_not_whole_but_not_on_the_cpu_either() -> None:
    found = placed("Qwen3-14B")

    assert found is not None
    assert found.kind is Kind.PARTIAL
    assert dict(found.layers)[GPU] >= 30


def test_what_is_larger_than_everything_is_refused() -> None:
    assert placed("Llama3-70B") is None


# What is not followed: the true values ---------------------------------------------------------


def true_mib(name: str, context: int) -> int:
    header = MODELS[name].header
    assert cache_layout(header).exact
    size = sum(cache_bytes(header, context=context, slots=1))
    assert size % MIB == 0
    return size // MIB


def by_the_articles_formula(name: str, context: int) -> int:
    model = MODELS[name]
    return 2 * model.blocks * model.width * context * 2 // MIB


def compute_mib(name: str, context: int) -> int:
    return round(estimate(MODELS[name].header, {}, [context]).device_compute[0] / MIB)


def rows_of_the_table() -> list[tuple[str, int, int, int, int]]:
    """Model, context, MiB by the article's formula, true MiB, MiB of the compute buffer."""
    found = re.findall(
        r"^\| (\S+) \| ([\d,]+) \| [^|]* \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$",
        DEVIATIONS.read_text(),
        re.MULTILINE,
    )
    return [
        (name, *(int(number.replace(",", "")) for number in numbers))  # type: ignore[misc]
        for name, *numbers in found
    ]


def test_the_table_tells_of_every_model() -> None:
    assert {row[0] for row in rows_of_the_table()} == MODELS.keys()


@pytest.mark.parametrize("row", rows_of_the_table(), ids=lambda row: f"{row[0]} {row[1]}")
def test_the_table_tells_the_true_values(row: tuple[str, int, int, int, int]) -> None:
    name, context, formula, true, compute = row

    assert formula == by_the_articles_formula(name, context)
    assert true == true_mib(name, context)
    assert compute == compute_mib(name, context)
