"""Ollama's environment variables: which count as what, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from routerproj.ollama_environment import ollama_defaults


@pytest.mark.parametrize(
    ("name", "text", "ours"),
    [
        ("OLLAMA_KEEP_ALIVE", "10m", {"CORRAL_MODEL_KEEP_ALIVE": "600"}),
        ("OLLAMA_KEEP_ALIVE", "1h30m", {"CORRAL_MODEL_KEEP_ALIVE": "5400"}),
        ("OLLAMA_KEEP_ALIVE", "1234567", {"CORRAL_MODEL_KEEP_ALIVE": "1234567"}),
        ("OLLAMA_KEEP_ALIVE", "0", {"CORRAL_MODEL_KEEP_ALIVE": "0"}),
        ("OLLAMA_KEEP_ALIVE", "-1", {"CORRAL_MODEL_KEEP_ALIVE": "-1"}),
        ("OLLAMA_KEEP_ALIVE", "-5m", {"CORRAL_MODEL_KEEP_ALIVE": "-1"}),
        ("OLLAMA_MAX_LOADED_MODELS", " 3 ", {"CORRAL_MODELS_MAX": "3"}),
        ("OLLAMA_NUM_PARALLEL", "2", {"LLAMA_ARG_N_PARALLEL": "2"}),
        ("OLLAMA_CONTEXT_LENGTH", "32768", {"CORRAL_CONTEXT_PER_SLOT": "32768"}),
        ("OLLAMA_MAX_QUEUE", "512", {"CORRAL_QUEUE_LIMIT": "512"}),
        ("OLLAMA_LOAD_TIMEOUT", "10m", {"CORRAL_LOAD_STALL": "600"}),
        ("OLLAMA_ORIGINS", "https://a.example, *", {"CORRAL_CORS_ORIGINS": "https://a.example,*"}),
        ("OLLAMA_ORIGINS", "app://*,https://b", {"CORRAL_CORS_ORIGINS": "https://b"}),
        ("OLLAMA_FLASH_ATTENTION", "true", {"LLAMA_ARG_FLASH_ATTN": "on"}),
        ("OLLAMA_FLASH_ATTENTION", "0", {"LLAMA_ARG_FLASH_ATTN": "off"}),
        (
            "OLLAMA_KV_CACHE_TYPE",
            "q8_0",
            {"LLAMA_ARG_CACHE_TYPE_K": "q8_0", "LLAMA_ARG_CACHE_TYPE_V": "q8_0"},
        ),
    ],
)
def test_what_means_the_same_counts_and_is_said(name: str, text: str, ours: dict[str, str]) -> None:
    found = ollama_defaults({name: text})

    assert found.variables == ours
    [line] = found.lines
    assert line.startswith(f"{name}={text.strip()} counts as ")
    assert all(f"{each}={value}" in line for each, value in ours.items())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OLLAMA_KEEP_ALIVE", "soon"),
        ("OLLAMA_KEEP_ALIVE", "5 minutes"),
        ("OLLAMA_MAX_LOADED_MODELS", "-1"),
        ("OLLAMA_MAX_LOADED_MODELS", "many"),
        ("OLLAMA_NUM_PARALLEL", "1.5"),
        ("OLLAMA_CONTEXT_LENGTH", "100"),
        ("OLLAMA_CONTEXT_LENGTH", "99999999999999999999"),
        ("OLLAMA_MAX_QUEUE", "0"),
        ("OLLAMA_LOAD_TIMEOUT", "0"),
        ("OLLAMA_LOAD_TIMEOUT", "-1"),
        ("OLLAMA_ORIGINS", "http://192.168.*"),
        ("OLLAMA_FLASH_ATTENTION", "maybe"),
        ("OLLAMA_KV_CACHE_TYPE", "q9"),
        ("OLLAMA_MODELS", "/nowhere/at/all"),
    ],
)
def test_a_wrong_value_is_told_and_changes_nothing(name: str, text: str) -> None:
    found = ollama_defaults({name: text})

    assert found.variables == {}
    assert len(found.lines) == 1
    assert found.lines[0].startswith(f"{name}={text!r} is ignored: ")


@pytest.mark.parametrize(
    "name", ["OLLAMA_MAX_LOADED_MODELS", "OLLAMA_NUM_PARALLEL", "OLLAMA_CONTEXT_LENGTH"]
)
def test_0_leaves_it_open_as_in_ollama(name: str) -> None:
    found = ollama_defaults({name: "0"})

    assert (found.variables, found.lines) == ({}, ())


@pytest.mark.parametrize(
    ("name", "above"),
    [
        ("OLLAMA_KEEP_ALIVE", "CORRAL_MODEL_KEEP_ALIVE"),
        ("OLLAMA_MAX_LOADED_MODELS", "CORRAL_MODELS_MAX"),
        ("OLLAMA_MAX_LOADED_MODELS", "LLAMA_ARG_MODELS_MAX"),
        ("OLLAMA_NUM_PARALLEL", "LLAMA_ARG_N_PARALLEL"),
        ("OLLAMA_ORIGINS", "LLAMA_ARG_CORS_ORIGINS"),
        ("OLLAMA_KV_CACHE_TYPE", "LLAMA_ARG_CACHE_TYPE_V"),
    ],
)
def test_our_names_and_llama_cpps_count_above_ollamas(name: str, above: str) -> None:
    found = ollama_defaults({name: "1", above: "2"})

    assert found.variables == {}
    assert found.lines == (f"{name} does not count: {above} is set, and stands above it",)


def test_ollamas_store_is_offered_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    store = {"OLLAMA_MODELS": str(tmp_path)}

    assert ollama_defaults(store).variables == {"CORRAL_OLLAMA_MODELS": str(tmp_path)}
    assert ollama_defaults(store | {"CORRAL_OLLAMA_MODELS": "auto"}).lines == ()


def test_what_means_nothing_here_is_said_with_what_does() -> None:
    found = ollama_defaults({"OLLAMA_HOST": "0.0.0.0:11434", "OLLAMA_ODD": "1"})

    assert found.variables == {}
    assert "--ollama-port" in found.lines[0]
    assert found.lines[1] == "OLLAMA_ODD does not count here: Corral knows no such variable"


def test_a_clients_own_variables_are_nobodys_business() -> None:
    assert ollama_defaults({"OLLAMA_API_KEY": "secret", "OLLAMA_KEEP_ALIVE": " "}).lines == ()
