"""Which files of a repository are taken: llama.cpp's rules."""

from __future__ import annotations

import pytest

from models_registry.downloads.choosing import choose_model, choose_sidecar
from models_registry.downloads.planned import Refused

PATHS = [
    "imatrix-Q4_K_M.gguf",
    "mmproj-Q4_K_M.gguf",
    "mtp-m-Q4_K_M.gguf",
    "m-Q2_K.gguf",
    "m-UD-Q4_K_XL.gguf",
    "m-Q8_0-00001-of-00002.gguf",
    "m-Q8_0-00002-of-00002.gguf",
    "m-Q4_K_M.gguf",
]


@pytest.mark.parametrize(
    ("tag", "chosen"),
    [
        ("", "m-Q4_K_M.gguf"),
        ("q8_0", "m-Q8_0-00001-of-00002.gguf"),
        ("Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
        ("UD-Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
        ("Q2_K", "m-Q2_K.gguf"),
    ],
)
def test_a_tag_finds_its_file_and_none_the_preferred_one(tag: str, chosen: str) -> None:
    assert choose_model(PATHS, tag=tag) == chosen


def test_without_the_preferred_ones_it_is_the_first() -> None:
    assert choose_model(["b-F16.gguf", "a-F32.gguf"]) == "b-F16.gguf"
    assert choose_model(["b-F16.gguf", "a-Q8_0.gguf"]) == "a-Q8_0.gguf"


def test_a_tag_is_no_pattern() -> None:
    with pytest.raises(Refused, match="it has Q2_K"):
        choose_model(PATHS, tag="Q.*")


def test_a_named_file_that_is_a_shard_means_the_first_one() -> None:
    assert choose_model(PATHS, file="m-Q8_0-00002-of-00002.gguf") == "m-Q8_0-00001-of-00002.gguf"


def test_a_companion_is_the_nearest_then_of_the_same_tag_then_nearest_in_bits() -> None:
    paths = ["mmproj-F16.gguf", "a/mmproj-BF16.gguf", "a/mmproj-F16.gguf", "a/mmproj-Q8_0.gguf"]

    assert choose_sidecar(paths, "a/m-Q8_0.gguf", "mmproj") == "a/mmproj-Q8_0.gguf"
    assert choose_sidecar(paths, "a/m-F32.gguf", "mmproj") == "a/mmproj-F16.gguf"
    assert choose_sidecar(paths[:3], "b/m-Q8_0.gguf", "mmproj") == "a/mmproj-F16.gguf"
    assert choose_sidecar(paths, "b/m-Q8_0.gguf", "draft") == ""
    assert choose_sidecar(PATHS, "m-Q2_K.gguf", "draft") == "mtp-m-Q4_K_M.gguf"
