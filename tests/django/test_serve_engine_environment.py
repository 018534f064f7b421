"""LLAMA_ARG_ variables that would do harm later, or nothing, are spoken of at the start."""

from __future__ import annotations

import pytest

from routerproj.serve.engine_environment import warnings_about
from routerproj.serve.options import BadOption
from tests.unit.registry.known import CATALOGUE


@pytest.mark.parametrize(
    ("name", "value"),
    [("LLAMA_ARG_CTX_SIZE", "abc"), ("LLAMA_ARG_CTX_SIZE", ""), ("LLAMA_ARG_FLASH_ATTN", "maybe")],
)
def test_a_value_that_the_engine_would_not_take_is_refused_with_its_variable(
    name: str, value: str
) -> None:
    with pytest.raises(BadOption, match=f"^{name}={value}: takes"):
        warnings_about({name: value}, CATALOGUE)


@pytest.mark.parametrize(
    ("name", "why"),
    [("LLAMA_ARG_TOOLS", "run tools"), ("LLAMA_ARG_NO_SUCH_THING", "has no such option")],
)
def test_what_counts_for_nothing_is_warned_of(name: str, why: str) -> None:
    (warning,) = warnings_about({name: "all"}, CATALOGUE)

    assert warning.startswith(f"{name} is ignored")
    assert why in warning


@pytest.mark.parametrize(
    "environment",
    [
        {"LLAMA_ARG_CTX_SIZE": "4096"},
        {"LLAMA_ARG_HOST": "127.0.0.1", "LLAMA_ARG_PORT": "80", "LLAMA_ARG_MODELS_DIR": "/m"},
        {"LLAMA_ARG_MODELS_MEMORY_MARGIN": "2048"},
        {"LLAMA_ARG_NO_CONT_BATCHING": "whatever"},
        {"LLAMA_API_KEY": "k", "PATH": "/bin"},
    ],
)
def test_what_is_good_is_not_spoken_of(environment: dict[str, str]) -> None:
    assert warnings_about(environment, CATALOGUE) == []
