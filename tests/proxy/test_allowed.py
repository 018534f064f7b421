"""Lists, events and refusals leave out what a key may not use, and what it may not read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from proxy.callers import Caller
from proxy.scopes import Scope

from .asking import Exchange
from .test_model_list import instance, never_asked, presets, snapshot  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)


class Key:
    def __init__(self, **fields: Any) -> None:
        self.caller = Caller("blue", **fields)

    async def identify(self, headers: object, by_session: object = None) -> Caller:
        return self.caller

    def as_known(self, caller: Caller) -> Caller:
        return self.caller

    async def close(self) -> None:
        pass


async def asked(house, key: Key, path: str, body: bytes | None = None) -> Exchange:
    async with house(never_asked, keys=key) as h:
        h.scheduler.live = snapshot([instance("a", "loaded"), instance("b", "loaded")])
        method = "GET" if body is None else "POST"
        return await Exchange(h.app, path, method=method, body=body).end()


@pytest.mark.parametrize(
    ("path", "names"),
    [("/v1/models", "data"), ("/models", "data"), ("/api/tags", "models"), ("/api/ps", "models")],
)
@pytest.mark.usefixtures("presets")
async def test_a_list_holds_what_the_key_may_use_and_nothing_else(house, path, names):
    told = await asked(house, Key(allowed=(("z-alias",), ("*",))), path)

    listed = [each.get("id") or each["name"].partition(":")[0] for each in told.json[names]]
    assert listed == ["a"]


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/models/b", None), ("/models/b", None), ("/api/show", b'{"model":"b"}')],
)
@pytest.mark.usefixtures("presets")
async def test_one_that_it_may_not_use_is_answered_as_one_that_is_not_there(house, path, body):
    key = Key(allowed=(("a",),))
    there = await asked(house, key, path, body)
    nowhere = await asked(house, key, path.replace("/b", "/q"), body and body.replace(b"b", b"q"))

    assert there.status == nowhere.status >= 400
    assert there.body.replace(b"'b'", b"'q'") == nowhere.body.replace(b'"b"', b'"q"')


@pytest.mark.usefixtures("presets")
async def test_who_may_only_infer_sees_names_and_nothing_of_what_runs(house):
    key = Key(scopes=frozenset({Scope.INFER}))
    told = await asked(house, key, "/v1/models")
    one = await asked(house, key, "/v1/models/a")

    assert [each["id"] for each in told.json["data"]] == ["a", "b"]
    assert not any("status" in each for each in [*told.json["data"], one.json])
    for path in ("/api/ps", "/models/sse", "/slots"):
        assert (await asked(house, key, path)).status == 403


@pytest.mark.usefixtures("presets")
async def test_events_tell_of_what_the_key_may_use_and_of_no_other(house):
    async with house(never_asked, keys=Key(allowed=(("alias",),))) as h:
        exchange = Exchange(h.app, "/models/sse", method="GET", body=b"")
        async with asyncio.timeout(30):
            while b"snapshot" not in exchange.body:  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.01)
            h.scheduler.happen("b", queued=True)
            h.scheduler.happen("a", queued=True)
            while b"queued" not in exchange.body:  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.01)
        exchange.leave()
        await exchange.end()

    parts = [part for part in exchange.body.split(b"\n\n") if b"data: " in part]
    events = [json.loads(part.split(b"data: ", 1)[1]) for part in parts]
    assert [each["id"] for each in events[0]["data"]["models"]] == ["a"]
    assert [each["model"] for each in events[1:]] == ["a"]
