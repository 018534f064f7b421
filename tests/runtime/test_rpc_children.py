"""A child hears of the RPC servers that it uses, and of no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models_registry.launch import LaunchSpec
from models_registry.options.command_line import EffectiveOption, Layer, render
from scheduler.core.sizes import FIXED, ON_HOST, DeviceId, Grant, Kind, Need, Placement
from scheduler.runtime.rpc_children import grant_for_child, need_in_ledger, told_of
from tests.unit.registry.known import CATALOGUE

SERVERS = ("one:1", "two:2", "three:3")
SPEC = LaunchSpec("m", (), "", ("--model", "m.gguf", "--rpc", ",".join(SERVERS), "-c", "9"), 1, "")


def on(*layers: tuple[str, int]) -> Grant:
    kind = Kind.WHOLE if len(layers) == 1 else Kind.SPREAD
    return Grant(Placement(kind, layers), 4096, Need())


def test_one_that_is_on_the_second_server_is_told_of_that_alone():
    spec, names = told_of(SPEC, on(("RPC1", 3)), SERVERS)

    assert spec.argv == ("--model", "m.gguf", "--rpc", "two:2", "-c", "9")
    assert names == {"RPC0": "RPC1"}


def test_its_device_is_the_first_that_it_knows():
    grant = on(("RPC1", 3))
    _, names = told_of(SPEC, grant, SERVERS)

    assert grant_for_child(grant, names).placement.layers == (("RPC0", 3),)


def test_one_that_is_spread_is_told_of_its_two():
    spec, names = told_of(SPEC, on(("RPC0", 2), ("RPC2", 1)), SERVERS)

    assert spec.argv[2:4] == ("--rpc", "one:1,three:3")
    assert names == {"RPC1": "RPC2"}


def test_one_on_the_host_is_told_of_none():
    spec, names = told_of(SPEC, Grant(ON_HOST, 4096), SERVERS)

    assert "--rpc" not in spec.argv
    assert names == {}


@pytest.mark.parametrize("grant", [Grant(ON_HOST, 4096), on(("RPC1", 3)), on(("RPC0", 3))], ids=str)
def test_where_the_ledger_chose_it_is_not_told_of_what_it_chose_from(grant: Grant):
    """The engine would end at a device of which it does not know."""
    spec, _ = told_of(replace(SPEC, argv=(*SPEC.argv, "--device", "RPC0,RPC1")), grant, SERVERS)

    assert "--device" not in spec.argv


def fixed(*devices: str) -> Grant:
    return Grant(FIXED, 4096, Need(tuple((DeviceId(device), 5) for device in devices)))


def test_one_whose_options_say_where_it_goes_is_told_of_those_it_takes_something_of():
    assert told_of(SPEC, fixed("Host"), SERVERS)[0].argv == ("--model", "m.gguf", "-c", "9")
    spec, names = told_of(SPEC, fixed("RPC2", "Host"), SERVERS)
    assert spec.argv[2:4] == ("--rpc", "three:3")
    assert names == {"RPC0": "RPC2"}


def test_of_all_where_nobody_knows_what_it_takes():
    assert told_of(SPEC, Grant(FIXED, 4096), SERVERS) == (SPEC, {})


@pytest.mark.parametrize(
    ("option", "value", "needs", "told", "servers"),
    [
        ("--tensor-split", "0,1,0", ["RPC1"], "1", "two:2"),
        ("--tensor-split", "3/0/1/2", ["RPC0", "RPC2"], "3,1,2", "one:1,three:3"),
        ("--tensor-split", "1,1", ["RPC0"], "1,1", "one:1,two:2"),  # it may get a layer
        ("--tensor-split", "0, 0.0,0,1", ["CUDA0"], "1", ""),
        ("--tensor-split", "0", ["Host"], "0", ""),
        ("--main-gpu", "2", ["RPC2"], "0", "three:3"),
        ("--main-gpu", "1", ["RPC0"], "1", "one:1,two:2"),
        ("--main-gpu", "4", ["CUDA1"], "1", ""),
        ("--main-gpu", "-1", ["RPC1"], "-1", "two:2"),
        ("--override-tensor", "blk=RPC0[three:3]", ["RPC0"], "blk=RPC0[three:3]", "one:1,three:3"),
        ("--override-tensor", "blk=CPU", ["RPC0"], "blk=CPU", "one:1"),
        ("--override-tensor-draft", "a=RPC0[two:2]", ["Host"], "a=RPC0[two:2]", "two:2"),
    ],
)
def test_options_that_count_devices_count_those_that_it_is_told_of(
    option: str, value: str, needs: list[str], told: str, servers: str
):
    counted = replace(SPEC, argv=(*SPEC.argv, option, value))

    spec, _ = told_of(counted, fixed(*needs, "Host"), SERVERS)

    assert spec.argv[-2:] == (option, told)
    assert spec.argv[2:-2] == (("--rpc", servers, "-c", "9") if servers else ("-c", "9"))


def test_options_beside_a_list_of_devices_count_what_is_on_it():
    options = ("--device", "RPC1,CUDA0", "--tensor-split", "0,1", "--main-gpu", "1")
    spec, _ = told_of(replace(SPEC, argv=(*SPEC.argv, *options)), fixed("CUDA0"), SERVERS)

    assert spec.argv[2:] == (
        "--rpc", "two:2", "-c", "9",
        "--device", "RPC0,CUDA0", "--tensor-split", "0,1", "--main-gpu", "1",
    )  # fmt: skip


@pytest.mark.parametrize("key", ["device", "device-draft", "mmproj-device"])
def test_its_options_name_its_devices_as_the_child_knows_them(key: str):
    """In the spelling that a preset's options are written in. And the engine reads of the servers
    before it reads of their devices."""
    option, _ = written = render([EffectiveOption(key, "RPC1,RPC2", Layer.PRESET)], CATALOGUE)
    spec, names = told_of(replace(SPEC, argv=(*SPEC.argv, *written)), fixed("RPC2"), SERVERS)

    assert spec.argv[2:] == ("--rpc", "two:2,three:3", "-c", "9", option, "RPC0,RPC1")
    assert names == {"RPC0": "RPC1", "RPC1": "RPC2"}


def test_a_machine_without_servers_changes_nothing():
    spec = LaunchSpec("m", (), "", ("--model", "m.gguf"), 1, "")

    assert told_of(spec, on(("CUDA0", 3)), ()) == (spec, {})


def test_what_the_child_reports_is_counted_on_the_machines_device():
    assert need_in_ledger(Need((("RPC0", 3), ("Host", 1))), {"RPC0": "RPC1"}) == Need(
        (("RPC1", 3), ("Host", 1))
    )
