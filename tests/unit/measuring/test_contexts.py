"""Which contexts a preset may be granted."""

from __future__ import annotations

import pytest

from scheduler.measuring.contexts import contexts_of, ladder_of_contexts


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (4096, 8192)),
        ({"parallel": "2"}, (8192, 16384)),
        ({"parallel": "4", "kv-unified": "true"}, (4096, 8192, 16384, 32768)),
        ({"fit-ctx": "2048"}, (2048, 4096, 8192)),
        ({"fit-ctx": "3000"}, (2816, 5632, 8192)),
        ({"ctx-size": "3000", "parallel": "2"}, (3000,)),
        ({"ctx-size": "0", "parallel": "2"}, (262144,)),
        ({"ctx-size": "0", "parallel": "2", "kv-unified": "true"}, (131072,)),
        ({"kv-unified-per-slot": "5000", "parallel": "3", "kv-unified": "true"}, (15000,)),
    ],
)
def test_from_the_smallest_doubling_to_the_largest(
    options: dict[str, str], expected: tuple[int, ...]
) -> None:
    assert contexts_of(options, per_slot=8192, trained=131072) == expected


@pytest.mark.parametrize(
    ("trained", "unified", "expected"),
    [
        (512, "false", (1024,)),
        (512, "true", (512,)),
        (6000, "false", (8192, 11776)),
        (6000, "true", (4096, 5888)),
        (100, "false", (512,)),
    ],
)
def test_nothing_gets_more_than_the_model_knows(
    trained: int, unified: str, expected: tuple[int, ...]
) -> None:
    options = {"parallel": "2", "kv-unified": unified}

    assert contexts_of(options, per_slot=8192, trained=trained) == expected


def test_a_cap_below_the_smallest_context_is_the_context() -> None:
    assert contexts_of({"parallel": "2"}, per_slot=1024, trained=8192) == (2048,)


@pytest.mark.parametrize(
    ("options", "trained", "expected"),
    [
        ({}, 4096, (512, 1024, 2048, 4096)),
        ({"parallel": "2"}, 2048, (1024, 2048, 4096)),
        ({"parallel": "2", "kv-unified": "true"}, 2048, (512, 1024, 2048)),
        ({"ctx-size": "3000"}, 2048, (512, 1024, 2048, 3000)),
        ({"ctx-size": "0"}, 1024, (512, 1024)),
        ({}, 100, (256,)),
    ],
)
def test_people_choose_among_all_that_the_model_knows(
    options: dict[str, str], trained: int, expected: tuple[int, ...]
) -> None:
    assert ladder_of_contexts(options, trained=trained) == expected
