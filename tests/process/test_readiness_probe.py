"""The readiness probe on real processes, fake ones and llama-server."""

from __future__ import annotations

import pytest

from models_registry.engine_path import llama_server
from scheduler.protocol import Refused
from scheduler.run_logs import runs_of
from scheduler.runtime.record import Gone
from tests.support.tiny_model import tiny_model

from .running import children, preset, running


async def test_a_child_that_generates_has_loaded():
    async with running([preset("a", readiness_probe=True)]) as gateway:
        assert (await gateway.client.acquire("a")).instance == 1
    assert children() == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [("--generate-nothing", "answered 500"), ("--crash-on-request", "signal SIGABRT")],
)
async def test_a_child_that_generates_nothing_has_failed_to_load(fault, words):
    argv = ("--parallel", "1", fault)
    async with running([preset("a", argv=argv, readiness_probe=True)]) as gateway:
        with pytest.raises(Refused) as refused:
            await gateway.client.acquire("a")

        assert refused.value.code == "model_load_failed"
        assert "it loaded, and generated nothing" in refused.value.message
        assert words in refused.value.message
        [gone] = [entry for entry in gateway.entries if isinstance(entry, Gone)]
        assert gone.reason == "failed_to_load"
    assert children() == []


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize(
    "use", [(), ("--embeddings",), ("--embeddings", "--pooling", "mean"), ("--reranking",)]
)
async def test_a_real_child_generates_a_token_or_an_embedding(tmp_path, use):
    model = str(tiny_model(tmp_path))
    argv = ("--model", model, "--ctx-size", "512", "--parallel", "1", *use)
    probed = preset("a", argv=argv, model_path=model, fingerprint="a", readiness_probe=True)
    async with running([probed], program=llama_server()) as gateway:
        await gateway.client.acquire("a")

        [run] = runs_of(gateway.config.log_folder, "a")
        log = run.path.read_text()
        assert "processing task" in log
    assert children() == []
