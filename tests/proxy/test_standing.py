"""What is open or waits under a key ends with the key, and an answer under way does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.utils import timezone

from proxy.conf import ProxyConfig
from proxy.key_ring import KeyRing
from proxy.keys import create_key, give_secret
from proxy.models import ApiKey, Membership, Team

from .asking import Exchange
from .fakes import Connection, Received

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 10.0
"""On a busy machine; what is promised is one."""


def revoke() -> None:
    ApiKey.objects.update(revoked_at=timezone.now())


def expire() -> None:
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


def delete_team() -> None:
    Team.objects.all().delete()


def leave_team() -> None:
    Membership.objects.all().delete()


def deactivate() -> None:
    User.objects.update(is_active=False)


def delete_person() -> None:
    User.objects.all().delete()


ENDS = [revoke, expire, delete_team, leave_team, deactivate, delete_person]


def a_persons_key() -> list[tuple[bytes, bytes]]:
    team = Team.objects.create(name="builders")
    user = User.objects.create_user("anna")
    Membership.objects.create(user=user, team=team)
    key = ApiKey(team=team, user=user, name="laptop")
    text = give_secret(key)
    key.save()
    return [(b"authorization", b"Bearer " + text.encode())]


@pytest.fixture
def ring(tmp_path: Path, settings: Any) -> KeyRing:
    """By the keys in the database."""
    return KeyRing(ProxyConfig(tmp_path, tmp_path, tmp_path, settings.SECRET_KEY))


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b'{"choices":[]}')


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - there is no event for what a test looks at
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("end", ENDS)
async def test_a_request_that_waits_is_refused_when_its_key_ends(house, ring, end):
    headers = await sync_to_async(a_persons_key)()
    async with house(answers, keys=ring) as h:
        h.scheduler.open.clear()
        exchange = Exchange(h.app, body=b'{"model":"m"}', headers=headers)
        await until(lambda: h.scheduler.waiting)

        await sync_to_async(end)()
        async with asyncio.timeout(SECONDS):
            await exchange.end()

        assert (exchange.status, exchange.json["error"]["code"]) == (401, "invalid_api_key")
        assert h.scheduler.waiting == 0


async def test_an_answer_under_way_goes_on(house, ring):
    going, revoked = asyncio.Event(), asyncio.Event()

    async def slowly(received: Received, child: Connection) -> None:
        going.set()
        await revoked.wait()
        await child.answer(b'{"choices":[]}')

    headers = await sync_to_async(a_persons_key)()
    async with house(slowly, keys=ring) as h:
        exchange = Exchange(h.app, body=b'{"model":"m"}', headers=headers)
        await going.wait()
        await sync_to_async(revoke)()
        await asyncio.sleep(1.2)  # two looks at the keys
        revoked.set()
        await exchange.end()

    assert exchange.status == 200


@pytest.mark.parametrize("names", [["n"], ["n", "m"]])
async def test_who_waits_is_served_by_what_the_list_says_when_its_turn_comes(house, ring, names):
    headers = await sync_to_async(a_persons_key)()
    await sync_to_async(Team.objects.update)(allowed=["m"])
    async with house(answers, keys=ring) as h:
        h.scheduler.open.clear()
        exchange = Exchange(h.app, body=b'{"model":"m"}', headers=headers)
        await until(lambda: h.scheduler.waiting)
        await sync_to_async(Team.objects.update)(allowed=names)
        known = h.scheduler.asked[0]
        await asyncio.sleep(1.2)  # two looks at the keys
        h.scheduler.open.set()
        await exchange.end()

        asked = h.scheduler.asked
        assert [each.allowed for each in asked] == [(("m",),), (tuple(names),)]
        assert asked[1].age >= known.age  # its place is that of its arrival
        assert asked[1].charge == known.charge
        assert h.scheduler.leases[0].released


async def no_models(caller: object) -> list[Any]:
    return []


async def test_a_stream_of_events_ends_with_an_error_that_says_why(house, ring):
    headers = await sync_to_async(a_persons_key)()
    async with house(answers, keys=ring) as h:
        h.app._listed = no_models
        exchange = Exchange(h.app, "/models/sse", method="GET", body=b"", headers=headers)
        await until(lambda: b"snapshot" in exchange.body)

        await sync_to_async(revoke)()
        async with asyncio.timeout(SECONDS):
            await exchange.end()

    last = exchange.body.decode().strip().split("\n\n")[-1]
    assert last.startswith("event: error\ndata: ")
    assert '"code":"invalid_api_key"' in last


async def test_other_keys_are_left_alone(house, ring):
    await sync_to_async(a_persons_key)()
    text = await sync_to_async(create_key)("other")
    headers = [(b"authorization", b"Bearer " + text.encode())]
    async with house(answers, keys=ring) as h:
        h.scheduler.open.clear()
        exchange = Exchange(h.app, body=b'{"model":"m"}', headers=headers)
        await until(lambda: h.scheduler.waiting)
        await sync_to_async(deactivate)()
        await asyncio.sleep(1.2)  # two looks at the keys
        h.scheduler.open.set()
        await exchange.end()

    assert exchange.status == 200
