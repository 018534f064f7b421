"""/health and /ready: a word for anybody, and all of it for who may know."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.callers import Caller
from proxy.client_socket import PERSON
from proxy.scopes import Scope
from scheduler.protocol import DeviceState, InstanceState, QueueEntry, Refused, SnapshotState

from .asking import Exchange
from .fakes import Connection, Received

FULL = Refused("usage_unavailable", "What requests use cannot be recorded: the disk is full.")
BEARER = [(b"authorization", b"Bearer of-somebody")]
DEVICE = DeviceState("CUDA0", "a card", "gpu", 9, 9, 0, 0, 0, 0, 0, None, 9)


class Keys:
    """Whoever has a key has these scopes."""

    def __init__(self, *scopes: Scope, answers: bool = True) -> None:
        self._scopes = frozenset(scopes)
        self._answers = answers

    def as_known(self, caller: Caller) -> Caller:
        return caller

    async def identify(self, headers: Any, by_session: object = None) -> Caller:
        if not self._scopes:
            raise Refused("invalid_api_key", "This API key is not valid, or no longer.")
        return Caller("blue", "abcdefgh", scopes=self._scopes)

    async def answers(self) -> bool:
        return self._answers

    async def close(self) -> None: ...


READER = Keys(Scope.READ)


async def never_asked(received: Received, child: Connection) -> None:
    raise AssertionError("no child is asked")


def snapshot(*states: str, queue: list[QueueEntry] | None = None, jobs: float | None = 1.0) -> Any:
    instances = [
        InstanceState(
            instance=number, preset="of-another-team", state=state, leases=0, abandoned=0,
            parallel=4, pid=7, stale=False, started_ago=1.0, used_ago=1.0,
        )
        for number, state in enumerate(states)
    ]  # fmt: skip
    return SnapshotState(4711, 1, 4, False, instances, queue or [], [], jobs_ago=jobs)


async def asked(h: Any, path: str = "/ready", headers: Any = BEARER) -> Exchange:
    return await Exchange(h.app, path, method="GET", headers=headers).end()


async def test_who_may_see_what_is_loaded_is_told_all(house):
    async with house(never_asked, keys=READER, no_auth=False) as h:
        queue = [QueueEntry("of-another-team", 3, 1.0)]
        h.scheduler.live = snapshot("loaded", "loaded", "loading", "draining", queue=queue)
        h.scheduler.machine = [DEVICE]
        told = await asked(h)

    said = told.json
    assert (told.status, said["status"]) == (200, "ok")
    assert said["reasons"] == said["warnings"] == []
    assert said["models"] == {
        "most": 4, "loaded": 2, "loading": 1, "instances": 4, "waiting": 3, "failed": 0,
    }  # fmt: skip
    assert said["scheduler"]["pid"] == 4711
    assert said["jobs"] == {"beat_ago": 1.0}
    assert said["devices"] == [{"device": "CUDA0", "unread": 0.0}]
    assert said["usage"]["waiting"] == 0
    assert said["disk"]["free"] > 0
    assert said["process"]["uptime"] >= 0
    assert "of-another-team" not in told.body.decode()


@pytest.mark.parametrize("keys", [Keys(), Keys(Scope.INFER)], ids=["bad", "infers"])
async def test_others_are_told_a_word(house, keys):
    async with house(never_asked, keys=keys, no_auth=False) as h:
        ready, health = await asked(h), await asked(h, "/health")
        anonymous = await asked(h, headers=())

    assert ready.json == health.json == anonymous.json == {"status": "ok"}


async def test_why_it_is_not_ready_is_told_to_who_may_know(house):
    keys = Keys(Scope.ADMIN, answers=False)
    async with house(never_asked, keys=keys, no_auth=False) as h:
        h.scheduler.away = True
        h.usage.refusal = FULL
        told, anonymous = await asked(h), await asked(h, headers=())

    assert (anonymous.status, anonymous.json) == (503, {"status": "not ready"})
    assert told.status == 503
    assert told.json["reasons"] == [
        "the scheduler does not answer",
        "the database does not answer",
        FULL.message,
    ]
    assert told.json["scheduler"] is told.json["models"] is told.json["devices"] is None


async def test_a_gateway_that_stops_is_not_ready_and_lives(house):
    async with house(never_asked, keys=READER, no_auth=False) as h:
        await h.app.drain(0)
        ready, health = await asked(h), await asked(h, "/health")

    assert ready.status == 503
    assert ready.json["reasons"] == ["the gateway is shutting down"]
    assert (health.status, health.json["status"]) == (200, "ok")


@pytest.mark.parametrize("jobs", [None, 31.0])
async def test_jobs_without_a_sign_of_life_and_devices_unread_are_warnings(house, jobs):
    async with house(never_asked, keys=READER, no_auth=False) as h:
        h.scheduler.live = snapshot(jobs=jobs)
        h.scheduler.machine = [DeviceState(**{**_fields(DEVICE), "stale": 40.0})]
        told = await asked(h)

    assert told.status == 200
    jobs_said, device_said = told.json["warnings"]
    assert "jobs" in jobs_said
    assert device_said == "CUDA0 could not be read for 40 s"


@pytest.mark.parametrize(("name", "knows"), [("ann", True), (None, False)])
async def test_a_person_in_the_admin_is_told_as_well(house, name, knows):
    async def person() -> str | None:
        return name

    async with house(never_asked, keys=READER, no_auth=False) as h:

        async def with_person(scope: Any, receive: Any, send: Any) -> None:
            await h.app({**scope, PERSON: person}, receive, send)

        told = await Exchange(with_person, "/ready", method="GET").end()

    assert ("models" in told.json) is knows


async def test_llama_cpps_health_check_finds_what_it_knows(house):
    async with house(never_asked, keys=READER, no_auth=False) as h:
        health = await asked(h, "/v1/health", headers=())

    assert (health.status, health.json) == (200, {"status": "ok"})


def _fields(device: DeviceState) -> dict[str, Any]:
    return {name: getattr(device, name) for name in device.__struct_fields__}
