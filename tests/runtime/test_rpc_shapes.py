"""RPC0 of one preset may be RPC1 of the machine: each is spoken to in its own numbers."""

from __future__ import annotations

from dataclasses import replace

from models_registry.launch import LaunchSpec
from scheduler.core.sizes import FixedShape, Grant, Kind, Need, OpenShape, Placement
from scheduler.runtime.rpc_shapes import (
    all_servers,
    grant_for_engine,
    names_for,
    need_in_ledger,
    shape_in_ledger,
)

MACHINE = ("one:1", "two:2")


def spec(name: str, rpc: str) -> LaunchSpec:
    return LaunchSpec(name, (), "", (), 1, "", memory_options={"rpc": rpc})


def test_the_machines_list_comes_first_and_then_what_presets_name_besides():
    specs = [spec("a", "three:3,one:1"), spec("b", "two:2")]

    assert all_servers(MACHINE, specs) == ("one:1", "two:2", "three:3")


def test_a_preset_with_the_machines_list_has_its_names():
    assert names_for(spec("a", "one:1,two:2"), MACHINE) == {}


def test_the_second_server_is_the_first_of_a_preset_that_names_it_alone():
    assert names_for(spec("a", "two:2"), MACHINE) == {"RPC0": "RPC1"}


def test_two_servers_in_another_order_change_places():
    assert names_for(spec("a", "two:2,one:1"), MACHINE) == {"RPC0": "RPC1", "RPC1": "RPC0"}


def test_a_fixed_shape_is_counted_on_the_ledgers_device():
    shape = FixedShape(((0, Need((("RPC0", 5), ("Host", 1)))),))

    told = shape_in_ledger(shape, {"RPC0": "RPC1"})

    assert told == FixedShape(((0, Need((("RPC1", 5), ("Host", 1)))),))


def test_an_open_shape_goes_to_the_ledgers_devices_and_its_grant_back_to_the_engines():
    whole = Placement(Kind.WHOLE, (("RPC0", 2),))
    shape = OpenShape(
        contexts=(4096,),
        layers=(),
        devices=("RPC0",),
        file="",
        mapped=(0,),
        device_compute=(0,),
        host_compute=((0,), (0,)),
        measured=((whole, (Need((("RPC0", 7),)),)),),
    )
    names = {"RPC0": "RPC1"}

    told = shape_in_ledger(shape, names)

    there = Placement(Kind.WHOLE, (("RPC1", 2),))
    assert told == replace(shape, devices=("RPC1",), measured=((there, (Need((("RPC1", 7),)),)),))
    assert grant_for_engine(Grant(there, 4096), names) == Grant(whole, 4096)


def test_what_the_child_reports_is_counted_on_the_ledgers_device():
    assert need_in_ledger(Need((("RPC0", 3),)), {"RPC0": "RPC1"}) == Need((("RPC1", 3),))
