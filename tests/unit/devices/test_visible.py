"""CUDA_VISIBLE_DEVICES decides which GPUs there are, and how they are numbered."""

from __future__ import annotations

import pytest

from scheduler.runtime.devices.visible import NotUnderstood, visible

A, B, C = "GPU-1a2b", "GPU-1a77", "GPU-9c00"


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        (None, (A, B, C)),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("0", (A,)),
        ("2,0", (C, A)),
        (" 1 , 2 ", (B, C)),
        ("0,7,1", (A,)),  # it ends at the first that names none
        ("1,-1,0", (B,)),
        (f"{C},{A}", (C, A)),
        ("GPU-9", (C,)),  # as many characters as tell it from others
        ("GPU-1a", ()),
        ("GPU-1a2,1", (A, B)),
        ("1,1", ()),  # CUDA then sees none at all
        (f"0,{A}", ()),
    ],
)
def test_children_see_these_in_this_order(setting, seen):
    assert visible(setting, [A, B, C]) == seen


@pytest.mark.parametrize("setting", ["MIG-aa-bb", "0,MIG-GPU-1a2b/1/0", "mig-1"])
def test_partitions_are_refused_with_what_to_do(setting):
    with pytest.raises(NotUnderstood, match="Name whole GPUs"):
        visible(setting, [A, B, C])


def test_without_a_gpu_nothing_is_seen():
    assert visible(None, []) == visible("0", []) == ()
