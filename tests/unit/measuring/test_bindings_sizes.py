"""Sizes out of the library's log."""

from __future__ import annotations

import pytest

from scheduler.measuring.bindings_child import CannotTell, sizes_in

MIB = 1 << 20
LOG = """\
llama_kv_cache:        CPU KV buffer size =     0.00 MiB
llama_kv_cache: size =   90.00 MiB (  2048 cells,  30 layers,  2/2 seqs), K (f16):   45.00 MiB
llama_kv_cache_iswa: creating non-SWA KV cache
llama_memory_recurrent: size =    1.50 MiB (     1 cells,  24 layers)
sched_reserve:        CPU compute buffer size =    17.25 MiB
sched_reserve:        CPU compute buffer size =    15.50 MiB
"""


def test_every_cache_counts_and_the_last_reservation() -> None:
    assert sizes_in(LOG) == (int(91.5 * MIB), int(15.5 * MIB))


def test_what_lies_on_another_device_cannot_be_told() -> None:
    with pytest.raises(CannotTell, match="CUDA0"):
        sizes_in(LOG + "sched_reserve:      CUDA0 compute buffer size =    10.00 MiB\n")


def test_a_log_without_sizes_tells_nothing() -> None:
    with pytest.raises(CannotTell):
        sizes_in("llama_model_loader: loaded meta data")
