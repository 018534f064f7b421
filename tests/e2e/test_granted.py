"""What would fit is what then happens; and what was granted is what a child allocates."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.support.asking import whole
from tests.support.gateway import Gateway, gateway
from tests.support.managing import MIB, Manager
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

TRAINED = 65_536
MODELS = {
    "long": {"seed": 11, "blocks": 20, "context": TRAINED},
    "other": {"seed": 12, "blocks": 20, "context": TRAINED, "heads": 2, "kv_heads": 1},
    "small": {"seed": 1},
}
EXACT = 2 * MIB


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    env = {
        "CORRAL_CACHE_RAM": "0",
        "CORRAL_MEMORY_MARGIN": "0",
        "CORRAL_CONTEXT_PER_SLOT": str(TRAINED),
    }
    folder = tmp_path_factory.mktemp("granted")
    with gateway(folder, args=["--models-max", "0"], env=env, models=MODELS) as started:
        yield started


@pytest.fixture(scope="module")
def manage(running: Gateway) -> Manager:
    manager = Manager(running)
    manager.until_measured(*MODELS)
    return manager


@pytest.fixture(autouse=True)
def nothing_loaded(running: Gateway) -> None:
    running.unload_all()


def test_an_open_context_is_the_largest_that_fits_the_budget_and_a_later_small_model_fits_too(
    running: Gateway, manage: Manager
) -> None:
    widest = _sizes(manage, budget=None)
    small = manage.fit("small")["empty"]["bytes"]["Host"]
    budget = (widest["bytes"] - 1) // MIB  # just too little for the largest of them
    fitting = _sizes(manage, budget=budget)
    assert 0 < fitting["context"] < widest["context"] == TRAINED
    assert fitting["bytes"] + small <= budget * MIB

    assert whole(running.client.chat("long"))

    child = running.child_of("long")
    assert _given(child.argv, "--ctx-size") == str(fitting["context"])
    assert _given(child.argv, "--fit") == "off"
    assert _context_of(child.socket) == fitting["context"]
    assert running.instance_of("long")["context"] == fitting["context"]

    assert whole(running.client.chat("small"))
    assert {each["preset"] for each in running.snapshot()["instances"]} == {"long", "small"}
    assert manage.device()["held"] <= budget * MIB


def test_what_would_fit_of_a_preset_as_saved_is_what_its_instance_takes(
    running: Gateway, manage: Manager
) -> None:
    _sizes(manage, budget=None)
    foretold = manage.fit("long")["now"]

    assert whole(running.client.chat("long"))

    _as_foretold(running.instance_of("long"), foretold)


def test_what_would_fit_of_an_edit_is_what_its_instance_takes_once_it_is_saved(
    running: Gateway, manage: Manager
) -> None:
    _sizes(manage, budget=None)
    manage.make("edited", like="other", ctx_size=2048)
    edit = {"ctx_size": 12_288, "parallel": 3, "cache_type_k": "q8_0", "ubatch_size": 256}
    foretold = manage.fit_edited("edited", **edit)

    manage.change("edited", **edit)
    manage.until_measured("edited")
    assert whole(running.client.chat("edited"))

    assert foretold["estimated"] is True
    instance = running.instance_of("edited")
    assert instance["context"] in (0, foretold["now"]["context"])
    assert _given(instance["args"], "--ctx-size") == str(foretold["now"]["context"])
    thought, took = foretold["now"]["bytes"]["Host"], instance["actual"]["Host"]
    assert abs(thought - took) <= max(0.05 * took, EXACT)


def test_who_would_be_evicted_is_who_then_goes(running: Gateway, manage: Manager) -> None:
    _sizes(manage, budget=None)
    needs = {name: manage.fit(name)["empty"]["bytes"]["Host"] for name in ("long", "other")}
    for name in needs:
        manage.change(name, ctx_size=TRAINED)
    manage.until_measured(*needs)
    small = manage.fit("small")["empty"]["bytes"]["Host"]
    _sizes(manage, budget=(max(needs.values()) + small) // MIB + 1)
    assert whole(running.client.chat("long"))
    assert whole(running.client.chat("small"))

    foretold = manage.fit("other")["now"]
    assert foretold["evicts"] == ["long"]
    assert whole(running.client.chat("other"))

    left = {each["preset"] for each in running.snapshot()["instances"]}
    assert left == {"small", "other"}
    _as_foretold(running.instance_of("other"), foretold)
    for name in needs:
        manage.change(name, ctx_size=None)


def _sizes(manage: Manager, *, budget: int | None) -> dict[str, int]:
    """Under a budget in MiB: the context and the bytes of what `long` would be granted."""
    assert manage("PATCH", "/devices/Host", {"budget": budget}).status == 200
    counts = None if budget is None else budget * MIB
    eventually(lambda: manage.device()["budget"] == counts, "the budget counts")
    fit = manage.fit("long")["empty"]
    return {"context": fit["context"], "bytes": fit["bytes"].get("Host", 0)}


def _as_foretold(instance: dict[str, Any], foretold: dict[str, Any]) -> None:
    assert (instance["placement"], instance["context"]) == (foretold["kind"], foretold["context"])
    assert instance["predicted"] == foretold["bytes"]
    assert abs(instance["actual"]["Host"] - foretold["bytes"]["Host"]) <= EXACT


def _given(argv: Sequence[str], option: str) -> str:
    """The last one holds."""
    return [after for word, after in pairwise(argv) if word == option][-1]


def _context_of(address: str) -> int:
    """As the child itself says on its socket: what its slots share."""
    connection = http.client.HTTPConnection("child", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.connect(address)
        connection.request("GET", "/props")
        props = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return int(props["default_generation_settings"]["n_ctx"])
