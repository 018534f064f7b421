"""One name in the ledger for each RPC server, whatever the order of a preset's own list."""

from __future__ import annotations

import pytest

from scheduler.runtime.devices.rpc_names import endpoints, ledger_names, machine_list, union

A, B, C = "10.0.0.1:50052", "10.0.0.2:50052", "10.0.0.3:50052"


def test_the_machines_own_list_keeps_its_names():
    assert ledger_names([A, B], [A, B]) == {"RPC0": "RPC0", "RPC1": "RPC1"}


def test_another_order_is_translated():
    assert ledger_names([B, A], [A, B]) == {"RPC0": "RPC1", "RPC1": "RPC0"}


def test_a_presets_own_server_comes_after_all_others():
    assert ledger_names([C, A], union([[A, B], [C, A]])) == {"RPC0": "RPC2", "RPC1": "RPC0"}


def test_a_server_that_is_in_no_list_yet_comes_last():
    assert ledger_names([C], [A, B]) == {"RPC0": "RPC2"}


def test_a_server_with_several_devices_has_several_names():
    assert ledger_names([B, A], [A, B], {A: 2}) == {
        "RPC0": "RPC2",
        "RPC1": "RPC0",
        "RPC2": "RPC1",
    }


def test_without_servers_there_are_no_names():
    assert ledger_names([], [A]) == {}


@pytest.mark.parametrize(
    ("text", "found"), [("", ()), (f" {A} ,{B},", (A, B)), (f"{A},{B},{A}", (A, B))]
)
def test_a_list_is_read_as_the_engine_reads_it(text, found):
    assert endpoints(text) == found


def test_the_command_line_goes_before_the_environment():
    assert machine_list({"rpc": A}, {"LLAMA_ARG_RPC": B}) == (A,)
    assert machine_list({"rpc": ""}, {"LLAMA_ARG_RPC": B}) == ()
    assert machine_list({}, {"LLAMA_ARG_RPC": B}) == (B,)
    assert machine_list({}, {}) == ()
