"""Which presets somebody may use, by lists of names and patterns."""

from __future__ import annotations

import pytest

from models_registry.allowing import may_use


@pytest.mark.parametrize(
    ("names", "allowed", "may"),
    [
        (["a"], (), True),
        (["a"], (("a",),), True),
        (["a"], (("b",),), False),
        (["qwen:7b"], (("qwen*",),), True),
        (["my-qwen"], (("qwen*",),), False),
        (["a"], (("*",),), True),
        (["a", "gpt-4o"], (("gpt-4o",),), True),
        (["a:latest"], (("a",),), True),
        (["a"], (("a:latest",),), True),
        (["a:8b"], (("a",),), False),
        (["a"], (("a",), ("b",)), False),
        (["a"], (("a", "b"), ("a*",)), True),
        (["a", "b"], (("a",), ("b",)), True),
        (["a", "*"], (("b*",),), False),
        (["a", "gpt*"], (("gpt*",),), True),
        ([], (("*",),), False),
    ],
)
def test_each_list_must_have_one_of_the_names(names, allowed, may):
    assert may_use(names, allowed) is may
