"""How much of a model's file the host maps."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.measuring.mapped_child import NotReadable, Tensor, mapped_bytes, tensors_of
from tests.support.tiny_model import CACHE, tiny_model

FILE = [
    Tensor("token_embd.weight", 100, 200),
    Tensor("blk.0.ffn_up.weight", 200, 210),
    Tensor("blk.0.attn_norm.weight", 210, 220),
    Tensor("blk.1.ffn_up.weight", 220, 230),
    Tensor("blk.1.attn_norm.weight", 230, 240),
    Tensor("output_norm.weight", 240, 250),
]


def test_without_another_device_it_is_the_whole_file() -> None:
    assert mapped_bytes([FILE], None) == 150


@pytest.mark.parametrize(
    ("gpu_layers", "mapped"), [(0, 150), (1, 140), (2, 120), (3, 100), (99, 100)]
)
def test_the_last_layers_go_first_and_the_output_before_all(gpu_layers: int, mapped: int) -> None:
    assert mapped_bytes([FILE], gpu_layers) == mapped


def test_everything_between_the_first_and_the_last_counts() -> None:
    unsorted = [FILE[3], FILE[0], FILE[1]]

    assert mapped_bytes([unsorted], 99) == 100
    assert mapped_bytes([[Tensor("blk.0.a", 0, 1), Tensor("blk.1.a", 1, 9), FILE[0]]], 2) == 200


def test_each_shard_is_a_mapping_of_its_own() -> None:
    assert mapped_bytes([FILE[:2], FILE[4:]], 1) == 110 + 10


def test_the_first_pattern_that_matches_places_a_tensor() -> None:
    placed = [(r"blk\.1\.ffn", False), (r"ffn_up", True)]

    assert mapped_bytes([FILE], 99, placed) == 110


def test_a_real_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tiny_model(CACHE / "measured", "tiny")
    with path.open("rb") as file:
        tensors = tensors_of(file, path.stat().st_size)

    assert {"token_embd.weight", "blk.0.ffn_up.weight"} <= {tensor.name for tensor in tensors}
    assert mapped_bytes([tensors], None) == pytest.approx(49152 * 64 * 4, rel=0.05)


def test_a_file_that_lies_about_its_tensors_is_refused() -> None:
    name = b"blk.0.a"
    header = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
    info = struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 8, 0, 1 << 40)

    with pytest.raises(NotReadable, match="outside"):
        tensors_of(io.BytesIO(header + info), 200)


@given(st.binary(max_size=300))
def test_whatever_follows_the_magic_is_read_or_refused(data: bytes) -> None:
    file = b"GGUF" + struct.pack("<I", 3) + data
    try:
        found = tensors_of(io.BytesIO(file), len(file))
    except NotReadable:
        return
    assert all(tensor.end <= len(file) for tensor in found)
