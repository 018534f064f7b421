"""A budget of a device, set by a program while the real gateway runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.asking import Answer
from tests.support.gateway import Gateway, gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("limits")) as started:
        yield started


@pytest.fixture(scope="module")
def manage(running: Gateway) -> Ask:
    key = running.admin_key

    def ask(method: str, path: str, body: Any = None) -> Answer:
        return running.client.request(method, f"/router/api{path}", body, key=key)

    return ask


def host(manage: Ask) -> dict[str, Any]:
    [found] = [each for each in manage("GET", "/devices").json["items"] if each["kind"] == "Host"]
    return dict(found)


def measured(manage: Ask, preset: str) -> dict[str, Any]:
    """Where it would go now, as it is saved; empty before it is measured."""
    told = manage("GET", f"/presets/{preset}/fit").json
    return dict(told["now"]) if told["now"]["kind"] and not told["estimated"] else {}


def fits(manage: Ask, **edit: Any) -> dict[str, Any]:
    """Now, for alpha as edited."""
    return dict(manage("POST", "/fit", {"preset": "alpha", **edit}).json["now"])


def test_a_budget_counts_at_once_and_so_does_its_end(running: Gateway, manage: Ask) -> None:
    eventually(lambda: host(manage)["total"] > 0, "the host has been read")
    eventually(lambda: fits(manage)["kind"] == "host", "what alpha takes is known")

    assert manage("PATCH", "/devices/Host", {"budget": 1}).status == 200
    eventually(lambda: host(manage)["budget"] == 1 << 20, "the scheduler has read the budget")
    refused = running.client.chat("alpha")
    assert (refused.status, refused.code) == (503, "model_too_large")
    assert "Host" in fits(manage)["problem"]

    manage("PATCH", "/devices/Host", {"budget": None})
    eventually(lambda: host(manage)["budget"] is None, "the scheduler has read that there is none")
    assert running.client.chat("alpha").status == 200
    held = {each["preset"]: each for each in host(manage)["instances"]}
    assert held["alpha"]["predicted"] > 0


def test_a_budget_below_what_is_held_ends_the_idle_and_the_record_says_why(
    running: Gateway, manage: Ask
) -> None:
    assert running.client.chat("alpha").status == 200
    number = running.instance_of("alpha")["instance"]

    manage("PATCH", "/devices/Host", {"budget": 1})
    eventually(lambda: host(manage)["held"] == 0, "nothing is held any more")
    manage("PATCH", "/devices/Host", {"budget": None})

    assert running.client.chat("alpha").status == 200
    assert running.instance_of("alpha")["instance"] != number
    ends = manage("GET", "/record/decisions?preset=alpha").json["items"]
    [over] = [each for each in ends if each["reason"] == "over_limit"]
    assert over["figures"]["over_Host"] > 0


def test_what_would_fit_of_an_edit_is_what_it_then_takes(running: Gateway, manage: Ask) -> None:
    eventually(lambda: measured(manage, "beta"), "beta is measured")
    asked = {"ctx_size": 768, "parallel": 1}
    foretold = manage("POST", "/fit", {"preset": "beta", **asked}).json

    assert manage("PATCH", "/presets/beta", asked).status == 200
    eventually(lambda: measured(manage, "beta").get("context") == 768, "the edit is measured")

    assert (foretold["estimated"], foretold["now"]["context"]) == (True, 768)
    was, thought = measured(manage, "beta")["bytes"]["Host"], foretold["now"]["bytes"]["Host"]
    assert thought == pytest.approx(was, rel=0.05)


def test_a_model_without_a_preset_is_asked_about_too(running: Gateway, manage: Ask) -> None:
    file = manage("GET", "/presets/gamma").json["model_file"]

    told = manage("POST", "/fit", {"model_file": file, "ctx_size": 512}).json

    assert (told["preset"], told["now"]["kind"], told["now"]["context"]) == ("", "host", 512)
