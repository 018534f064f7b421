"""A grant as arguments: behind the preset's own, so that these hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.core.sizes import FIXED, NOTHING_GRANTED, ON_HOST, DeviceId, Grant, Kind, Placement
from scheduler.runtime.engines.granted import granted_argv
from scheduler.runtime.engines.llama_server import LlamaServer

from .standing_in import preset

A, B = DeviceId("CUDA0"), DeviceId("CUDA1")


def placed(kind: Kind, **layers: int) -> Placement:
    return Placement(kind, tuple((DeviceId(name), count) for name, count in layers.items()))


def test_nothing_granted_says_nothing() -> None:
    assert granted_argv({}, NOTHING_GRANTED) == ()


def test_one_device_is_named_with_all_its_layers() -> None:
    grant = Grant(placed(Kind.WHOLE, CUDA1=33), 8192)

    assert granted_argv({}, grant) == (
        "--ctx-size", "8192", "--device", "CUDA1", "--n-gpu-layers", "33", "--fit", "off",
    )  # fmt: skip


@pytest.mark.parametrize("kind", [Kind.SPREAD, Kind.PARTIAL])
def test_several_devices_are_split_by_their_layers(kind: Kind) -> None:
    argv = granted_argv({}, Grant(placed(kind, CUDA0=10, CUDA1=23), 4096))

    assert argv[2:] == (
        "--device", "CUDA0,CUDA1", "--n-gpu-layers", "33", "--split-mode", "layer",
        "--tensor-split", "10,23", "--fit", "off",
    )  # fmt: skip


def test_the_host_alone_has_no_device() -> None:
    argv = granted_argv({}, Grant(ON_HOST, 4096))

    assert argv[2:] == ("--device", "none", "--n-gpu-layers", "0", "--fit", "off")


def test_a_draft_model_goes_to_the_first_device() -> None:
    argv = granted_argv({"model-draft": "d.gguf"}, Grant(placed(Kind.SPREAD, CUDA0=1, CUDA1=2), 1))

    assert argv[argv.index("--spec-draft-device") + 1] == "CUDA0"


@pytest.mark.parametrize(
    ("options", "split"),
    [
        ({"n-gpu-layers": "99"}, True),
        ({"tensor-split": "3,1"}, False),
        ({"split-mode": "none"}, False),
        ({"device": "CUDA0"}, False),
        ({"device": "CUDA0,CUDA1"}, True),
    ],
)
def test_where_the_options_say_the_place_the_parts_are_equal_unless_they_say_that_too(
    options: dict[str, str], split: bool
) -> None:
    argv = granted_argv(options, Grant(FIXED, 4096))

    assert ("--tensor-split" in argv) is split
    assert (argv[:2], argv[-2:]) == (("--ctx-size", "4096"), ("--fit", "off"))


def test_it_stands_behind_the_presets_own() -> None:
    spec = preset("a", argv=("--ctx-size", "1", "--device", "CUDA0"))
    command = LlamaServer(lambda: Path("/bin/true")).command(
        spec, "/run/x.sock", Grant(ON_HOST, 512)
    )

    assert command.argv.index("--device") < command.argv.index("none")
    assert command.argv.index("1") < command.argv.index("512")


@pytest.mark.parametrize("own", ["--log-verbosity", "--log-verbose"])
def test_it_says_what_it_allocates_unless_the_preset_says_how_much_it_says(own: str) -> None:
    engine = LlamaServer(lambda: Path("/bin/true"))
    plain = engine.command(preset("a"), "/run/x.sock").argv
    quiet = engine.command(preset("a", argv=(own, "1")), "/run/x.sock").argv

    assert plain[plain.index("--log-verbosity") + 1] == "4"
    assert (quiet.count(own), "4" in quiet) == (1, False)
