"""Who did what is told of a running gateway, whichever door they came through."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.gateway import Gateway
from tests.support.managing import Manager

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.one_worker]


def test_each_door_of_a_running_gateway_is_in_the_trail(shared: Gateway) -> None:
    manager, client = Manager(shared), shared.client
    before = newest(manager, "")["number"]

    shared.unload_all()
    assert client.request("POST", "/models/load", {"model": "alpha"}).status == 200
    assert (
        client.request("POST", "/api/generate", {"model": "alpha", "keep_alive": 0}).status == 200
    )
    assert manager("POST", "/presets/alpha/unload").status == 200
    assert manager("POST", "/aliases", {"name": "audited", "preset": "alpha"}).status == 201
    assert manager("DELETE", "/aliases/audited").status == 204

    done = [
        (each["door"], each["action"], each["object_name"])
        for each in manager("GET", "/audit?origin=127.0.0.1").json["items"]
        if each["number"] > before
    ]
    for deed in (
        ("models", "loaded", "alpha"),
        ("ollama", "unloaded", "alpha"),
        ("rest", "unloaded", "alpha"),
        ("rest", "created", "audited"),
        ("rest", "deleted", "audited"),
    ):
        assert deed in done
    first = newest(manager, "?action=created&type=preset&object=alpha")
    assert first["kind"] == "command line"
    assert "all as they were written" in shared.manage("audit", "--verify").stdout


def newest(manager: Manager, query: str) -> dict[str, Any]:
    return dict(manager("GET", f"/audit{query}").json["items"][0])
