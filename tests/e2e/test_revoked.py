"""A key that is revoked is refused by both of two web processes, and what is open
under it ends; its successor after a rotation works beside it until the grace ends."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from tests.support.gateway import Gateway, gateway

from .test_web_worker_killed import _connection_to

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("revoked"), workers=2) as running:
        yield running


def made(running: Gateway, name: str) -> str:
    return running.manage("createkey", name, "--again").stdout.splitlines()[-1]


def status(running: Gateway, worker: int, key: str) -> int:
    with closing(_connection_to(running, worker)) as connection:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status


def listening(connection: http.client.HTTPConnection, key: str) -> http.client.HTTPResponse:
    connection.request("GET", "/models/sse", headers={"Authorization": f"Bearer {key}"})
    response = connection.getresponse()
    assert b"snapshot" in response.readline() + response.readline() + response.readline()
    return response


def test_a_revoked_key_ends_in_both_processes(two_workers: Gateway) -> None:
    workers = [process.pid for process in two_workers.processes("web")]
    key = made(two_workers, "phone")
    address = f"ws://127.0.0.1:{two_workers.client.port}/models/ws"
    with ExitStack() as stack:
        assert [status(two_workers, worker, key) for worker in workers] == [200, 200]
        streams = [
            listening(stack.enter_context(closing(_connection_to(two_workers, worker))), key)
            for worker in workers
        ]
        headers = {"Authorization": f"Bearer {key}"}
        socket = stack.enter_context(connect(address, additional_headers=headers))
        assert json.loads(socket.recv())["event"] == "snapshot"

        two_workers.django(
            "from django.utils import timezone; from proxy.models import ApiKey; "
            f"ApiKey.objects.filter(public_id='{key[3:11]}').update(revoked_at=timezone.now())"
        )
        tails = [stream.read() for stream in streams]
        with pytest.raises(ConnectionClosedError) as closed:
            socket.recv(timeout=30)

        assert all(b"event: error" in tail and b"invalid_api_key" in tail for tail in tails)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert [status(two_workers, worker, key) for worker in workers] == [401, 401]


def test_a_rotated_key_works_beside_its_successor_until_its_grace_ends(
    two_workers: Gateway,
) -> None:
    workers = [process.pid for process in two_workers.processes("web")]
    old = made(two_workers, "rotated")
    rotated = two_workers.manage("rotatekey", old[3:11], "--grace", "0.002")
    new = rotated.stdout.splitlines()[-1]

    first = [status(two_workers, worker, key) for worker in workers for key in (old, new)]
    time.sleep(8)  # the grace is 7.2 s
    then = [status(two_workers, worker, key) for worker in workers for key in (old, new)]

    assert first == [200] * 4
    assert then == [401, 200] * 2
