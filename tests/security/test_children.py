"""E3, E4: what a model's process may do, as the kernel tells it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler.runtime.child import needs_privileges
from tests.security.conftest import House

pytestmark = pytest.mark.engine


@pytest.fixture
def child(house: House) -> int:
    body = {"model": "alpha", "prompt": "x", "max_tokens": 1}
    answer = house.gateway.client.request("POST", "/v1/completions", body, key=house.reds)
    assert answer.status == 200
    return house.gateway.child_of("alpha").pid


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_it_listens_on_a_socket_of_its_own_and_on_no_port(child: int) -> None:
    opened = {str(each.readlink()) for each in Path(f"/proc/{child}/fd").iterdir()}
    inodes = {found[1] for each in opened if (found := re.fullmatch(r"socket:\[(\d+)\]", each))}
    ports = [
        line.split()[9]
        for table in ("tcp", "tcp6", "udp", "udp6")
        for line in Path(f"/proc/{child}/net/{table}").read_text().splitlines()[1:]
    ]

    assert inodes
    assert not inodes & set(ports)


def test_it_gains_no_rights_dumps_no_memory_and_ends_with_us(child: int) -> None:
    limits = Path(f"/proc/{child}/limits").read_text()

    assert status(child)["NoNewPrivs"] == ("0" if needs_privileges() else "1")
    assert re.search(r"Max core file size +0 ", limits)


def test_a_driver_that_makes_its_device_first_is_let_do_it(tmp_path: Path) -> None:
    assert not needs_privileges(tmp_path)
    (tmp_path / "nvidiactl").touch()
    assert needs_privileges(tmp_path)
    (tmp_path / "nvidia-uvm").touch()
    assert not needs_privileges(tmp_path)


ABUSES = {
    "memory": {"repeat_last_n": 2_000_000_000, "repeat_penalty": 1.1},
    "memory of dry": {"dry_penalty_last_n": 2_000_000_000, "dry_multiplier": 1},
    "its one thread": {"dry_multiplier": 1, "dry_sequence_breakers": ["x"] * 2000},
    "its stack": {"grammar": "root ::= " + "(" * 100_000},
    "an abort": {"grammar_lazy": True, "grammar_triggers": [{"type": 99, "value": "x"}]},
    "a pattern without end": {
        "grammar_lazy": True,
        "grammar_triggers": [{"type": 2, "value": "((.|\\n)*)*Z"}],
    },
    "an earlier hole": {"n_discard": -1000},  # CVE-2026-21869
}


@pytest.mark.parametrize("abuse", ABUSES)
def test_one_request_ends_no_process_that_others_use(house: House, child: int, abuse: str) -> None:
    body = {"model": "alpha", "prompt": "x", "max_tokens": 1, **ABUSES[abuse]}
    answer = house.gateway.client.request("POST", "/completion", body, key=house.reds)
    after = house.gateway.client.request(
        "POST", "/completion", {"model": "alpha", "prompt": "x", "n_predict": 1}, key=house.admin
    )  # fmt: skip

    assert answer.status == 400
    assert after.status == 200
    assert house.gateway.child_of("alpha").pid == child
