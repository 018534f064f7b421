"""What a child says that it has allocated: lines of a real one, and others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.events import AllocationReported, ReadyReported, SleepingReported
from scheduler.core.sizes import HOST, DeviceId, FileId, Need, on_each
from scheduler.core.values import InstanceId
from scheduler.runtime.allocated import (
    LONGEST_LINE,
    MIB,
    MOST_NAMES,
    Allocated,
    is_plausible,
)
from scheduler.runtime.instance_run import DRAIN_SECONDS, DRAIN_STEPS, InstanceRun

from .standing_in import StandIn, preset, staged, until

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
    assert on_each(need) == {"Host": 182 * MIB}


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


@pytest.mark.parametrize(
    "buffer", ["RPC²[x]", "RPC" + "5" * 300 + "[x]", "RPC٣[x]", "RPC99999[127.0.0.1:1]"]
)
def test_no_number_of_a_device_is_too_odd(buffer: str) -> None:
    line = size(buffer, "model", 1)

    assert len(line) < LONGEST_LINE
    heard(USED.format("RPC0", "127.0.0.1:1"), LOADING, line)


def test_a_line_that_is_too_long_is_not_looked_at() -> None:
    need = heard(LOADING, size("CPU", "model", 1), "x" * LONGEST_LINE + size("CPU", "KV", 1))

    assert of(need) == {"Host": 1}


def test_the_names_of_a_server_are_bounded() -> None:
    child = Allocated()
    for number in range(10 * MOST_NAMES):
        child.take(USED.format(f"RPC{number}", "one:1"))

    assert len(child.names._on_endpoint["one:1"]) == MOST_NAMES


def test_it_is_whole_once_each_context_has_said_what_it_computes_in() -> None:
    child, whole = Allocated(), []
    for line in (
        LOADING, size("CPU", "model", 9), CONTEXT, size("CPU", "KV", 1), size("CPU", "compute", 1),
        CONTEXT, size("CPU", "compute", 1),
    ):  # fmt: skip
        child.take(line)
        whole.append(child.is_whole)

    assert whole == [False, False, False, False, True, False, True]


@pytest.mark.parametrize(
    ("size", "totals", "plausible"),
    [
        (5, {"CUDA0": 5}, True),
        (6, {"CUDA0": 5}, False),
        (1, {"Host": 5}, False),
        (5, {}, True),
        (1 << 50, {}, False),
    ],
)
def test_no_device_has_more_than_it_has(
    size: int, totals: dict[DeviceId, int], plausible: bool
) -> None:
    assert is_plausible(Need(((DeviceId("CUDA0"), size),)), totals) is plausible


WEIGHTS = size("CPU_Mapped", "model", 92)
CACHE, COMPUTE = size("CPU", "KV", 90), size("CPU", "compute", 1)
FORGED = size("CPU", "model", 10**6)
WHOLE = AllocationReported(InstanceId(1), Need(((HOST, 91 * MIB),), ((FileId(""), 92 * MIB),)))
READY, ASLEEP = ReadyReported(InstanceId(1)), SleepingReported(InstanceId(1))


class Loading:
    """A child that loads, and what is told of it."""

    def __init__(self, run: InstanceRun, child: StandIn) -> None:
        self.child = child
        self.told: list[object] = []
        self.run = run
        run._told = lambda _, news: self.told.append(news)

    def say(self, *lines: str) -> None:
        for line in lines:
            self.child.log(line)


@contextlib.asynccontextmanager
async def loading() -> AsyncIterator[Loading]:
    async with staged(preset("a"), ready=False) as stage:
        stage.ask("a")
        await until(lambda: stage.children)
        [run], [child] = stage.owner.runs.values(), stage.children
        yield Loading(run, child)


async def test_it_is_told_before_the_child_counts_as_ready_though_the_streams_overtake() -> None:
    async with loading() as it:
        it.say(LOADING, WEIGHTS, CONTEXT, CACHE)
        it.child.say("ready")
        it.say(COMPUTE)
        assert it.told == []
        await until(lambda: READY in it.told)

        assert it.told == [WHOLE, READY]


async def test_what_clients_write_is_no_figure_also_while_it_sleeps_and_wakes() -> None:
    async with loading() as it:
        it.say(LOADING, WEIGHTS, CONTEXT, CACHE, COMPUTE)
        it.child.say("ready")
        await until(lambda: READY in it.told)
        it.say(FORGED)
        it.child.say("sleeping")
        it.say(LOADING, FORGED, CONTEXT, COMPUTE)
        it.child.say("ready")
        it.say(FORGED)
        await asyncio.sleep(2 * DRAIN_SECONDS * DRAIN_STEPS)

        assert it.told == [WHOLE, READY, ASLEEP, READY]


async def test_a_ready_that_is_held_back_is_told_before_what_comes_next() -> None:
    async with loading() as it:
        it.say(LOADING, WEIGHTS, CONTEXT, CACHE, COMPUTE)
        it.child.say("ready")
        it.child.say("sleeping")

        assert it.told == [WHOLE, READY, ASLEEP]


async def test_figures_that_are_not_whole_leave_what_was_predicted() -> None:
    async with loading() as it:
        it.say(LOADING, WEIGHTS, CONTEXT, CACHE)
        it.child.say("ready")
        await until(lambda: it.told)

        assert it.told == [READY]


async def test_figures_that_cannot_be_leave_what_was_predicted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with loading() as it:
        it.run._totals = lambda: {HOST: 1 << 40}
        it.say(LOADING, WEIGHTS, size("CUDA0", "model", 9e6), CONTEXT, CACHE, COMPUTE)
        it.child.say("ready")
        await until(lambda: it.told)

        assert it.told == [READY]
    assert "what cannot be" in caplog.text
