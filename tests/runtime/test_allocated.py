"""What a child says that it has allocated: lines of a real one, and others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.events import AllocationReported, ReadyReported, SleepingReported
from scheduler.core.sizes import HOST, FileId, Need
from scheduler.runtime.allocated import MIB, Allocated, total

from .standing_in import preset, staged, until

FILE = FileId("m.gguf")
USED = "llama_prepare_model_devices: using device {} ({}) (unknown id) - 24105 MiB free"
LOADING = "0.00.346.545 I load_tensors: loading model tensors, this can take a while..."
CONTEXT = "0.00.835.800 I llama_context: constructing llama_context"


def size(buffer: str, kind: str, mib: float) -> str:
    return f"0.00.466.126 I some_function: {buffer:>12} {kind} buffer size = {mib:8.2f} MiB"


def heard(*lines: str) -> Need | None:
    child = Allocated()
    for line in lines:
        child.take(line)
    return child.need(FILE)


def of(need: Need | None) -> dict[str, float]:
    assert need is not None
    return {device: size / MIB for device, size in need.own}


def test_what_is_mapped_is_told_apart() -> None:
    need = heard(LOADING, size("CPU_Mapped", "model", 92), CONTEXT, size("CPU", "KV", 90))

    assert need == Need(((HOST, 90 * MIB),), ((FILE, 92 * MIB),))
    assert total(need) == {"Host": 182 * MIB}


def test_several_buffers_of_one_kind_are_added_up() -> None:
    need = heard(
        LOADING,
        size("CPU_Mapped", "model", 10), size("CPU_Mapped", "model", 20),
        CONTEXT,
        size("CUDA0", "KV", 3), size("CUDA0", "KV", 4), size("CPU", "RS", 5),
    )  # fmt: skip

    assert of(need) == {"CUDA0": 7, "Host": 5}
    assert need is not None
    assert need.mapped == ((FILE, 30 * MIB),)


def test_of_a_buffer_that_is_reserved_again_the_last_counts_in_each_context() -> None:
    main = [CONTEXT, size("CUDA0", "compute", 30), size("CUDA0", "compute", 20)]
    draft = [LOADING, CONTEXT, size("CUDA0", "compute", 5)]

    assert of(heard(LOADING, size("CUDA0", "model", 1), *main, *draft)) == {"CUDA0": 26}


def test_a_draft_models_file_is_not_the_models() -> None:
    need = heard(LOADING, size("CPU_Mapped", "model", 9), LOADING, size("CPU_Mapped", "model", 2))

    assert need == Need(((HOST, 2 * MIB),), ((FILE, 9 * MIB),))


def test_rpc_servers_are_called_as_the_engine_lists_them() -> None:
    need = heard(
        USED.format("RPC0", "127.0.0.1:1"), USED.format("RPC1", "127.0.0.1:2"),
        USED.format("RPC2", "127.0.0.1:2"), LOADING,
        size("RPC0[127.0.0.1:1]", "model", 1),
        size("RPC0[127.0.0.1:2]", "model", 2), size("RPC1[127.0.0.1:2]", "model", 3),
    )  # fmt: skip

    assert of(need) == {"RPC0": 1, "RPC1": 2, "RPC2": 3}


@pytest.mark.parametrize("buffer", ["CPU", "CPU_REPACK", "CUDA_Host"])
def test_the_host_has_buffers_of_several_names(buffer: str) -> None:
    assert of(heard(LOADING, size(buffer, "model", 7))) == {"Host": 7}


def test_a_projector_counts_where_it_is() -> None:
    need = heard(
        LOADING, size("CUDA0", "model", 1),
        "0.02.852.695 I clip_ctx: CLIP using CUDA0 backend",
        "0.02.857.049 I load_hparams: model size:         26.75 MiB",
        size("CUDA0", "compute", 2), size("CPU", "compute", 0.5),
    )  # fmt: skip

    assert of(need) == {"CUDA0": 29.75, "Host": 0.5}


def test_a_child_that_says_nothing_of_its_memory_has_said_nothing() -> None:
    assert heard("I srv llama_server: model loaded", LOADING, CONTEXT) is None


@given(st.lists(st.text(max_size=200), max_size=20))
def test_no_line_is_too_odd(lines: list[str]) -> None:
    heard(*lines, size("CPU", "model", 10**11))


async def test_it_is_told_before_the_child_counts_as_ready_and_clients_change_nothing() -> None:
    told: list[object] = []
    async with staged(preset("a")) as stage:
        await stage.ask("a").run()
        [run], [child] = stage.owner.runs.values(), stage.children
        run._told = lambda _, news: told.append(news)
        child.say("sleeping")
        child.log(LOADING)
        child.log(size("CPU_Mapped", "model", 92))
        child.log(size("CPU", "KV", 90))
        child.say("ready")
        child.log(size("CPU", "output", 1))  # the streams overtake each other
        await until(lambda: len(told) > 3)
        child.log(size("CPU", "model", 10**6))
        child.say("sleeping")

    need = Need(((HOST, 90 * MIB),), ((FileId(""), 92 * MIB),))
    later = Need(((HOST, 91 * MIB),), ((FileId(""), 92 * MIB),))
    assert told == [
        SleepingReported(run.instance),
        AllocationReported(run.instance, need),
        ReadyReported(run.instance),
        AllocationReported(run.instance, later),
        SleepingReported(run.instance),
    ]
