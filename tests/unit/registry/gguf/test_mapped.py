"""How much of a model's files the host maps."""

from __future__ import annotations

import pytest

from models_registry.gguf.contents import NotReadable, Tensor
from models_registry.gguf.header_child import mapped


def tensor(name: str, begin: int, end: int) -> Tensor:
    return Tensor(name, "F32", (1,), begin, end - begin)


FILE = [
    tensor("token_embd.weight", 100, 200),
    tensor("blk.0.ffn_up.weight", 200, 210),
    tensor("blk.0.attn_norm.weight", 210, 220),
    tensor("blk.1.ffn_up.weight", 220, 230),
    tensor("blk.1.attn_norm.weight", 230, 240),
    tensor("output_norm.weight", 240, 250),
]


def test_the_last_layers_go_first_and_the_output_before_all() -> None:
    assert mapped([FILE]) == [150, 140, 120, 100]


def test_everything_between_the_first_and_the_last_counts() -> None:
    unsorted = [FILE[3], FILE[0], FILE[1]]

    assert mapped([unsorted])[-1] == 100
    assert mapped([[tensor("blk.0.a", 0, 1), tensor("blk.1.a", 1, 9), FILE[0]]])[2] == 200


def test_each_shard_is_a_mapping_of_its_own() -> None:
    assert mapped([FILE[:2], FILE[4:]])[1] == 110 + 10


def test_the_first_pattern_that_matches_places_a_tensor() -> None:
    placed = [(r"blk\.1\.ffn", False), (r"ffn_up", True)]

    assert mapped([FILE], placed)[-1] == 110
    assert mapped([FILE], [(r"output|blk\.1", False)])[0] == 120


def test_what_turns_the_positions_goes_with_the_first_layer() -> None:
    file = [FILE[0], tensor("blk.0.a", 200, 210), tensor("rope_freqs.weight", 210, 240)]

    assert mapped([file]) == [140, 140, 100]


def test_a_file_with_nothing_in_it_maps_nothing() -> None:
    assert mapped([[]]) == [0, 0]


def test_names_of_more_layers_than_a_model_has_are_refused() -> None:
    with pytest.raises(NotReadable, match="1000000 layers"):
        mapped([[tensor("blk.999999.a", 0, 1)]])
