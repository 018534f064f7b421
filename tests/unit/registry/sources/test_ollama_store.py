"""Ollama's store: names as Ollama shows them, files by digest, parameters of the same meaning."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from models_registry.errors import ModelsFolderMissing
from models_registry.model_paths import files_state
from models_registry.sources.found import FoundModel
from models_registry.sources.ollama_params import options_of
from models_registry.sources.ollama_store import ollama_store, read_ollama_store

from .laying import KIND, Ollama

LIBRARY = "registry.ollama.ai/library"


@pytest.fixture
def store(tmp_path: Path) -> Ollama:
    return Ollama(tmp_path / "models")


def found(store: Ollama) -> dict[str, FoundModel]:
    contents = read_ollama_store(store.folder)
    assert contents.problems == []
    return {model.name: model for model in contents.models}


def test_names_are_those_that_ollama_shows(store: Ollama) -> None:
    for number, name in enumerate(
        ("registry.ollama.ai/library/llama3/8b", "registry.ollama.ai/someone/mine/latest",
         "hf.co/user/repo-GGUF/Q4_K_M", "localhost:5000/library/x/y")
    ):  # fmt: skip
        store.add(name, b"GGUF %d" % number)

    models = found(store)

    assert set(models) == {
        "llama3:8b", "someone/mine:latest", "hf.co/user/repo-GGUF:Q4_K_M",
        "localhost:5000/library/x:y",
    }  # fmt: skip
    assert models["someone/mine:latest"].aliases == ("someone/mine",)
    assert models["llama3:8b"].aliases == ()


def test_a_model_is_its_blob_with_its_projector(store: Ollama) -> None:
    path = store.add(f"{LIBRARY}/vision/latest", b"GGUF weights", projector=b"GGUF eyes")

    model = found(store)["vision:latest"]

    assert (model.path, model.size) == (path, 12)
    assert Path(model.mmproj).read_bytes() == b"GGUF eyes"
    assert model.stamp == files_state(path, model.mmproj).stamp


def test_two_names_of_one_blob_are_two_models_of_one_file(store: Ollama) -> None:
    first = store.add(f"{LIBRARY}/a/latest")
    second = store.add(f"{LIBRARY}/a/8b")

    assert first == second
    assert set(found(store)) == {"a:latest", "a:8b"}


def test_blobs_of_old_versions_have_a_colon(store: Ollama) -> None:
    path = Path(store.add(f"{LIBRARY}/a/latest"))
    old = path.with_name(path.name.replace("-", ":"))
    path.rename(old)

    assert found(store)["a:latest"].path == str(old)


def test_parameters_are_taken_and_the_rest_is_noted(store: Ollama) -> None:
    store.add(
        f"{LIBRARY}/a/latest",
        params={"temperature": 0.6, "num_ctx": 4096, "stop": ["<|im_end|>"], "num_keep": 4},
        template=b"{{ .Prompt }}",
        system=b"You are kind.",
        license=b"MIT",
    )

    model = found(store)["a:latest"]

    assert model.options == {"temperature": "0.6", "ctx-size": "4096"}
    text = " ".join(model.notes)
    for word in ("template", "system prompt", "stop words", "num_keep"):
        assert word in text
    assert len(model.notes) == 4


@pytest.mark.parametrize(
    ("params", "options"),
    [
        ({"top_k": 40, "top_p": 0.9, "min_p": 0}, {"top-k": "40", "top-p": "0.9", "min-p": "0"}),
        ({"seed": -1, "num_predict": -1}, {"seed": "-1", "n-predict": "-1"}),
        ({"num_predict": -2}, {}),  # fills the context there
        ({"num_gpu": -1}, {}),  # Ollama's own guess
        ({"num_gpu": 0, "num_thread": 4}, {"n-gpu-layers": "0", "threads": "4"}),
        ({"num_ctx": 0}, {}),
        ({"num_ctx": 4096.5}, {}),
        ({"temperature": "0.6"}, {}),
        ({"temperature": True}, {}),
        ({"temperature": float("nan")}, {}),
        ({"top_k": 2**40}, {}),
        ({"frequency_penalty": -0.5}, {"frequency-penalty": "-0.5"}),
        ({"tfs_z": 1.0}, {}),
    ],
)
def test_only_what_means_the_same_to_the_engine_is_taken(
    params: dict[str, object], options: dict[str, str]
) -> None:
    taken, notes = options_of(params)

    assert taken == options
    assert len(notes) == len(params) - len(options)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("<html>", "Expecting value"),
        ("[]", "no list of layers"),
        ('{"layers": {}}', "no list of layers"),
        ('{"layers": []}', "0 GGUF models"),
        ('{"layers": [null]}', "digest"),
        ('{"layers": [{"mediaType": "x", "digest": "sha256:../../etc/passwd"}]}', "digest"),
        ("[" * 100_000, "nested too deep"),
        ("x" * (1 << 21), "at most"),
    ],
)
def test_a_broken_manifest_is_said_and_stops_nothing(
    store: Ollama, manifest: str, words: str
) -> None:
    store.add(f"{LIBRARY}/good/latest")
    store.manifest(f"{LIBRARY}/bad/latest", manifest)

    contents = read_ollama_store(store.folder)

    assert [model.name for model in contents.models] == ["good:latest"]
    assert len(contents.problems) == 1
    assert words in contents.problems[0]


def test_what_is_no_gguf_or_needs_an_adapter_is_said(store: Ollama) -> None:
    store.add(f"{LIBRARY}/tensors/latest", b"safetensors")
    store.add(f"{LIBRARY}/tuned/latest", b"GGUF", adapter=b"GGUF lora")
    store.manifest(
        f"{LIBRARY}/gone/latest",
        f'{{"layers": [{{"mediaType": "{KIND}model", "digest": "sha256:{"a" * 64}"}}]}}',
    )

    contents = read_ollama_store(store.folder)

    assert contents.models == []
    text = "\n".join(contents.problems)
    for words in ("no GGUF", "LoRA adapter", "cannot be read"):
        assert words in text


def test_odd_entries_in_the_manifests_stop_nothing(store: Ollama) -> None:
    store.add(f"{LIBRARY}/good/latest")
    manifests = store.folder / "manifests"
    os.mkfifo(manifests / LIBRARY / "good" / "pipe")
    (manifests / LIBRARY / "good" / "folder").mkdir()
    (manifests / LIBRARY / "loop").symlink_to(manifests / LIBRARY)
    (manifests / "file").write_text("x")
    (manifests / ".DS_Store").write_text("x")

    contents = read_ollama_store(store.folder)

    assert "good:latest" in {model.name for model in contents.models}
    assert any("pipe" in problem for problem in contents.problems)


@pytest.mark.parametrize("setting", ["", "0", "off"])
def test_it_is_off_unless_it_is_named(setting: str) -> None:
    assert ollama_store(setting, {"OLLAMA_MODELS": "/x"}) is None


def test_auto_is_where_ollama_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    named = tmp_path / "named"
    named.mkdir()

    assert ollama_store("auto", {"OLLAMA_MODELS": str(named)}) == named
    assert ollama_store("auto", {"OLLAMA_MODELS": "/nowhere"}) is None
    own = tmp_path / ".ollama" / "models"
    own.mkdir(parents=True)
    assert ollama_store("auto", {}) == own
    assert ollama_store(str(named), {}) == named


def test_the_folder_above_the_store_does_as_well(store: Ollama) -> None:
    store.add(f"{LIBRARY}/a/latest")

    assert len(read_ollama_store(store.folder.parent).models) == 1


def test_a_store_that_cannot_be_listed_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelsFolderMissing, match="--ollama-models"):
        read_ollama_store(tmp_path / "nothing")
