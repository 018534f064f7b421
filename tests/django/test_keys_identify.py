"""Whose request it is: by the key, whatever is thrown at it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from proxy import key_ring, key_rows, last_uses
from proxy.callers import Caller, Policy
from proxy.conf import ProxyConfig
from proxy.key_ring import KeyRing
from proxy.keys import create_key
from proxy.models import ApiKey, Team
from scheduler.protocol import Refused

pytestmark = pytest.mark.django_db(transaction=True)


def config(**settings) -> ProxyConfig:
    from django.conf import settings as django_settings

    return ProxyConfig(
        control_socket=Path("unused"),
        temp_folder=Path("unused"),
        usage_folder=Path("unused"),
        secret_key=django_settings.SECRET_KEY,
        **settings,
    )


@pytest.fixture
async def ring() -> AsyncIterator[KeyRing]:
    ring = KeyRing(config())
    yield ring
    await ring.close()


@pytest.fixture
def key() -> str:
    return create_key("laptop", "blue")


def bearer(key: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + key.encode())]


async def refusal(ring: KeyRing, headers: list[tuple[bytes, bytes]]) -> str:
    with pytest.raises(Refused) as refused:
        await ring.identify(headers)
    return refused.value.code


@pytest.mark.parametrize(
    ("name", "form"),
    [
        (b"authorization", "Bearer {}"),
        (b"authorization", "bearer  {}"),
        (b"authorization", "{}"),
        (b"x-api-key", "{}"),
    ],
)
async def test_a_key_is_taken_in_each_of_the_usual_places(ring, key, name, form):
    caller = await ring.identify([(name, form.format(key).encode())])

    public_id = key.split("_")[1]
    scopes = frozenset({"infer", "read"})
    assert caller == Caller("blue", public_id, scopes=scopes, key_name="laptop", line=public_id)


async def test_the_same_key_twice_is_one_key_and_two_keys_are_none(ring, key):
    other = await sync_to_async(create_key)("other")

    assert await ring.identify([*bearer(key), (b"x-api-key", key.encode())])
    assert await refusal(ring, [*bearer(key), (b"x-api-key", other.encode())]) == "invalid_api_key"


async def test_a_wrong_secret_a_wrong_id_and_no_key_are_refused_alike(ring, key):
    _, public_id, secret = key.split("_", 2)
    wrong_secret = f"ck_{public_id}_{secret[:-1]}{'a' if secret[-1] != 'a' else 'b'}"
    wrong_id = f"ck_aaaaaaaa_{secret}"

    assert await refusal(ring, bearer(wrong_secret)) == "invalid_api_key"
    assert await refusal(ring, bearer(wrong_id)) == "invalid_api_key"
    assert await refusal(ring, []) == "invalid_api_key"
    assert await refusal(ring, [(b"authorization", b"")]) == "invalid_api_key"


@pytest.mark.parametrize(
    "garbage",
    [
        b"' OR '1'='1",
        b"ck_\0\0\0\0\0\0\0\0_" + b"a" * 43,
        b"x" * 1_000_000,
        "ck_äöüäöüäö_".encode() + b"a" * 43,
        b"ck_AAAAAAAA_" + b"a" * 43,
        b"\xff\xfe",
        b"ck_%_" + b"a" * 43,
    ],
)
async def test_garbage_never_reaches_the_database(ring, garbage):
    def queries() -> CaptureQueriesContext:
        return CaptureQueriesContext(connection)

    captured = await sync_to_async(queries)()
    await sync_to_async(captured.__enter__)()
    try:
        code = await refusal(ring, [(b"authorization", b"Bearer " + garbage)])
    finally:
        await sync_to_async(captured.__exit__)(None, None, None)

    assert code == "invalid_api_key"
    assert len(captured) == 0


async def test_only_the_digest_is_kept(key):
    row = await ApiKey.objects.aget(public_id=key.split("_")[1])

    secret = key.split("_", 2)[2]
    assert secret not in str(row.__dict__)
    assert len(row.digest) == 64


async def test_a_revoked_key_is_refused_as_soon_as_the_cache_has_aged(ring, key, monkeypatch):
    await ring.identify(bearer(key))
    await ApiKey.objects.aupdate(revoked_at=timezone.now())
    monkeypatch.setattr(key_ring, "CACHE_SECONDS", 0.0)

    assert await refusal(ring, bearer(key)) == "invalid_api_key"


async def test_an_expired_key_is_refused_at_once_even_from_the_cache(ring, monkeypatch):
    end = timezone.now() + timedelta(hours=1)
    key = await sync_to_async(create_key)("short", expires_at=end)
    monkeypatch.setattr(key_ring, "CACHE_SECONDS", 60.0)
    await ring.identify(bearer(key))

    clock = SimpleNamespace(time=end.timestamp, monotonic=time.monotonic)
    monkeypatch.setattr(key_ring, "time", clock)

    assert await refusal(ring, bearer(key)) == "invalid_api_key"


class Counted:
    """The look-up, counted; it can be made to fail or to hang."""

    def __init__(self) -> None:
        self.queries = 0
        self.error: Exception | None = None
        self.hang = threading.Event()
        self.hang.set()
        self._real = key_rows._keys

    def __call__(self):
        self.queries += 1
        self.hang.wait()
        if self.error is not None:
            raise self.error
        return self._real()


@pytest.fixture
def counted(monkeypatch) -> Iterator[Counted]:
    counted = Counted()
    monkeypatch.setattr(key_rows, "_keys", counted)
    yield counted
    counted.hang.set()


async def test_many_at_once_cost_one_query_and_so_do_those_after_them(
    ring, key, counted, monkeypatch
):
    monkeypatch.setattr(key_ring, "CACHE_SECONDS", 60.0)

    callers = await asyncio.gather(*(ring.identify(bearer(key)) for _ in range(50)))
    await ring.identify(bearer(key))

    assert {caller.team for caller in callers} == {"blue"}
    assert counted.queries == 1


def unknown(number: int) -> list[tuple[bytes, bytes]]:
    digits = f"{number:08}".translate(str.maketrans("0189", "abcd"))
    return bearer(f"ck_{digits}_{'a' * 43}")


async def test_a_flood_of_unknown_keys_costs_few_queries_and_shuts_nobody_out(
    ring, key, counted, monkeypatch
):
    monkeypatch.setattr(key_ring, "LOOKUP_SECONDS", 60.0)  # how fast is no matter here
    flood = [asyncio.create_task(refusal(ring, unknown(n))) for n in range(2000)]
    known = await asyncio.gather(*(ring.identify(bearer(key)) for _ in range(5)))

    assert set(await asyncio.gather(*flood)) == {"invalid_api_key"}
    assert {caller.team for caller in known} == {"blue"}
    assert counted.queries <= 2


async def test_a_key_that_was_just_made_works_at_once_even_when_it_was_unknown(ring, key):
    await ring.identify(bearer(key))
    new = await sync_to_async(create_key)("new", "green")

    assert (await ring.identify(bearer(new))).team == "green"


async def test_a_known_key_goes_on_for_a_few_seconds_when_the_database_hangs(
    ring, key, counted, monkeypatch
):
    await ring.identify(bearer(key))
    monkeypatch.setattr(key_ring, "LOOKUP_OF_KNOWN_SECONDS", 0.02)
    monkeypatch.setattr(key_ring, "LOOKUP_SECONDS", 0.05)
    counted.hang.clear()
    monkeypatch.setattr(key_ring, "CACHE_SECONDS", 0.0)

    assert (await ring.identify(bearer(key))).team == "blue"
    assert await refusal(ring, unknown(1)) == "auth_unavailable"
    monkeypatch.setattr(key_ring, "STALE_SECONDS", 0.0)
    assert await refusal(ring, bearer(key)) == "auth_unavailable"


async def test_nobody_waits_for_the_writing_of_a_last_use(ring, key, monkeypatch):
    writing, may_end = threading.Event(), threading.Event()

    def slow(public_ids: list[str]) -> None:
        writing.set()
        may_end.wait()

    monkeypatch.setattr(last_uses, "_set_last_use", slow)
    monkeypatch.setattr(key_ring, "CACHE_SECONDS", 0.0)
    try:
        await ring.identify(bearer(key))
        await asyncio.to_thread(writing.wait)
        assert (await ring.identify(bearer(key))).team == "blue"
        assert await refusal(ring, unknown(1)) == "invalid_api_key"
    finally:
        may_end.set()


async def test_a_last_use_that_cannot_be_written_is_dropped(ring, key, monkeypatch, caplog):
    def locked(public_ids: list[str]) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(last_uses, "_set_last_use", locked)
    assert await ring.identify(bearer(key))
    await ring.close()

    assert "database is locked" in caplog.text
    assert (await ApiKey.objects.aget()).last_used_at is None


async def test_after_the_end_nobody_is_let_in(ring, key):
    await ring.identify(bearer(key))
    await ring.close()

    assert await refusal(ring, unknown(1)) == "shutting_down"


async def test_a_broken_database_fails_closed_and_says_to_come_again(ring, key, counted):
    counted.error = OperationalError("gone")
    with pytest.raises(Refused) as refused:
        await ring.identify(bearer(key))

    assert refused.value.code == "auth_unavailable"
    assert refused.value.kind.status == 503
    assert refused.value.retry_after_seconds is not None


async def test_a_database_that_hangs_fails_closed(ring, key, counted, monkeypatch):
    counted.hang.clear()
    monkeypatch.setattr(key_ring, "LOOKUP_SECONDS", 0.05)

    assert await refusal(ring, bearer(key)) == "auth_unavailable"
    counted.hang.set()


async def test_whether_the_database_answers_is_asked_of_it_once_a_second(
    ring, counted, monkeypatch
):
    assert await ring.answers()
    counted.error = OperationalError("gone")
    assert await ring.answers()  # as of a moment ago

    monkeypatch.setattr(key_ring, "CACHE_SECONDS", 0.0)
    assert not await ring.answers()
    counted.error = None
    assert await ring.answers()


async def test_the_last_use_is_written_once_a_minute(ring, key):
    for _ in range(3):
        await ring.identify(bearer(key))
    await ring.close()
    first = (await ApiKey.objects.aget()).last_used_at
    assert first is not None

    another_process = KeyRing(config())
    await another_process.identify(bearer(key))
    await another_process.close()
    assert (await ApiKey.objects.aget()).last_used_at == first


async def test_keys_of_the_command_line_belong_to_the_default_team():
    ring = KeyRing(config(api_keys=("sesame", "open")))

    opened = await ring.identify(bearer("open"))
    assert (opened.team, opened.key) == ("default", "")
    assert await refusal(ring, bearer("opem")) == "invalid_api_key"
    await ring.close()


async def test_conversations_belong_to_a_key_also_to_one_of_the_command_line(ring, key):
    plain = KeyRing(config(api_keys=("sesame", "open")))
    owners = [
        (await each.identify(bearer(text))).owner
        for each, text in ((plain, "open"), (plain, "sesame"), (ring, key), (plain, "open"))
    ]
    await plain.close()

    assert all(owners)
    assert len(set(owners)) == 3
    assert owners[0] == owners[3]


async def test_a_caller_stands_in_the_queue_as_its_team_does(ring, key, monkeypatch):
    assert (await ring.identify(bearer(key))).policy == Policy(1.0, "normal")
    await Team.objects.filter(name="blue").aupdate(weight=2.5, priority="high")
    monkeypatch.setattr(key_ring, "CACHE_SECONDS", 0.0)

    assert (await ring.identify(bearer(key))).policy == Policy(2.5, "high")


async def test_keys_of_the_command_line_stand_as_the_default_team_does(monkeypatch):
    ring = KeyRing(config(api_keys=("open",)))
    await Team.objects.acreate(name="default", weight=0.5, priority="low")

    assert (await ring.identify(bearer("open"))).policy == Policy(0.5, "low")
    await Team.objects.aupdate(priority="high")
    assert (await ring.identify(bearer("open"))).policy == Policy(0.5, "low")
    monkeypatch.setattr(key_ring, "CACHE_SECONDS", 0.0)
    assert (await ring.identify(bearer("open"))).policy == Policy(0.5, "high")
    await ring.close()


async def test_keys_of_the_command_line_need_no_database(counted, monkeypatch):
    monkeypatch.setattr(key_ring, "LOOKUP_OF_KNOWN_SECONDS", 0.02)
    ring = KeyRing(config(api_keys=("open",)))
    counted.hang.clear()
    await asyncio.gather(*(ring.identify(bearer("open")) for _ in range(20)))

    assert (await ring.identify(bearer("open"))).team == "default"
    assert counted.queries == 1
    counted.hang.set()
    await ring.close()


async def test_without_authentication_any_key_or_none_will_do():
    ring = KeyRing(config(no_auth=True))

    assert await ring.identify([]) == Caller("default")
    assert await ring.identify(bearer("whatever")) == Caller("default")
