"""A preset's own environment variables: which may be set, and what they mean."""

from __future__ import annotations

import pytest

from models_registry.child_environment import (
    chosen_devices,
    environment_errors,
    environment_of,
    refused,
)
from models_registry.errors import OptionError


@pytest.mark.parametrize(
    "name",
    [
        "LLAMA_ARG_CTX_SIZE",
        "LLAMA_SERVER_ROUTER_PORT",
        "LLAMA_SERVER_CHILD_ROLE",
        "LLAMA_API_KEY",
        "LLAMA_CACHE",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PATH",
        "HOME",
        "TMPDIR",
        "PYTHONPATH",
        "CORRAL_SECRET_KEY",
        "DATABASE_URL",
        "GGML_RPC_DEBUG",
        "GGML_BACKEND_PATH",
        "CUDA_INJECTION64_PATH",
        "CUDA_DEVICE_ORDER",
        "VK_ICD_FILENAMES",
        "VK_LAYER_PATH",
        "VK_INSTANCE_LAYERS",
        "OMP_TOOL_LIBRARIES",
        "HSA_TOOLS_LIB",
        "GLIBC_TUNABLES",
        "https_proxy",
        "HF_TOKEN",
    ],
)
def test_what_loads_code_reaches_files_or_has_a_place_of_its_own_is_refused(name: str) -> None:
    assert refused(name)
    [error] = environment_errors(f"{name}=s3cret")
    assert error.startswith(f"Line 1: {name} is refused: ")
    assert "s3cret" not in error


@pytest.mark.parametrize(
    "line",
    [
        "CUDA_VISIBLE_DEVICES=0,1",
        "CUDA_VISIBLE_DEVICES=",
        "GGML_CUDA_ENABLE_UNIFIED_MEMORY=1",
        "GGML_VK_DISABLE_COOPMAT=1",
        "HSA_OVERRIDE_GFX_VERSION=10.3.0",
        "HIP_VISIBLE_DEVICES=1",
        "OMP_NUM_THREADS=4",
        "CUDA_SCALE_LAUNCH_QUEUES=4x",
        "NCCL_P2P_LEVEL=SYS",
        "RADV_PERFTEST=coopmat",
        "TZ=UTC",
    ],
)
def test_what_tunes_devices_and_computation_may_be_set(line: str) -> None:
    assert environment_errors(line) == []


def test_every_fault_is_told_with_its_line_and_no_value() -> None:
    text = "# a remark\n\nOMP_NUM_THREADS=4\nhidden words\n1X=hidden\nOMP_NUM_THREADS=5\n" + (
        "CUDA_VISIBLE_DEVICES=GPU-hidden\nA=" + "hidden" * 1000
    )

    errors = environment_errors(text)

    assert [error.partition(":")[0].partition(" is")[0] for error in errors] == [
        "Line 4",
        "Line 5",
        "Line 6",
        "Line 7",
        "Line 8",
    ]
    assert not [error for error in errors if "hidden" in error]


def test_there_is_an_end_to_variables() -> None:
    assert environment_errors("\n".join(f"A{number}=1" for number in range(64))) == []
    assert environment_errors("\n".join(f"A{number}=1" for number in range(65)))


def test_a_later_text_counts_above_an_earlier_one() -> None:
    assert environment_of(["A=1\nB=1", "B = 2 = 3 \nC="]) == {"A": "1", "B": "2 = 3", "C": ""}


def test_a_text_that_no_form_took_is_not_started_with() -> None:
    with pytest.raises(OptionError, match="LD_PRELOAD is refused"):
        environment_of(["A=1", "LD_PRELOAD=/tmp/x.so"])


CUDA = ["CPU", "CUDA0", "CUDA1", "CUDA2"]


@pytest.mark.parametrize(
    ("environment", "devices", "kept", "chosen"),
    [
        ({"A": "1"}, CUDA, {"A": "1"}, None),
        ({"CUDA_VISIBLE_DEVICES": "2, 0", "A": "1"}, CUDA, {"A": "1"}, "CUDA2,CUDA0"),
        ({"CUDA_VISIBLE_DEVICES": ""}, CUDA, {}, "none"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, CUDA, {}, "none"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["CPU"], {"CUDA_VISIBLE_DEVICES": "1"}, None),
        (
            {"HIP_VISIBLE_DEVICES": "1", "ROCR_VISIBLE_DEVICES": "1"},
            ["ROCm0", "ROCm1"],
            {},
            "ROCm1",
        ),
        ({"GGML_VK_VISIBLE_DEVICES": "0"}, ["Vulkan0", "CUDA0"], {}, "Vulkan0"),
    ],
)
def test_what_would_number_devices_anew_chooses_them_by_the_engines_names(
    environment: dict[str, str], devices: list[str], kept: dict[str, str], chosen: str | None
) -> None:
    assert chosen_devices(environment, devices) == (kept, chosen)


def test_a_device_that_is_not_there_is_said() -> None:
    with pytest.raises(OptionError, match="there is no device 3: CUDA0, CUDA1, CUDA2"):
        chosen_devices({"CUDA_VISIBLE_DEVICES": "0,3"}, CUDA)
