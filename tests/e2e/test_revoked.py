"""A key that is revoked is refused by both of two web processes, and what is open
under it ends; its successor after a rotation works beside it until the grace ends."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

from tests.support.gateway import Gateway, gateway
from tests.support.managing import Manager
from tests.support.polling import eventually

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


def read_on(socket: ClientConnection) -> None:
    """To its end: what became known meanwhile, such as a measurement, comes first."""
    while True:
        socket.recv(timeout=30)


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
            read_on(socket)

        assert all(b"event: error" in tail and b"invalid_api_key" in tail for tail in tails)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert [status(two_workers, worker, key) for worker in workers] == [401, 401]


def test_a_revocation_is_known_in_each_process_within_a_second(two_workers: Gateway) -> None:
    """The best of three: a machine that has other things to do is not what is judged."""
    workers = [process.pid for process in two_workers.processes("web")]
    longest = []
    for attempt in range(3):
        key = manage(two_workers, "/keys", {"name": f"timed {attempt}"})["key"]
        with ThreadPoolExecutor(len(workers)) as pool, ExitStack() as stack:
            asking = [stack.enter_context(closing(_connection_to(two_workers, w))) for w in workers]
            assert {on(connection, key) for connection in asking} == {200}
            let_in = [pool.submit(last_let_in, connection, key) for connection in asking]
            manage(two_workers, f"/keys/{key[3:11]}/revoke")
            revoked = time.monotonic()
            longest.append(max(each.result(30) for each in let_in) - revoked)
        if longest[-1] < 1:
            break

    assert min(longest) < 1, longest


def test_a_rotated_key_works_beside_its_successor_until_its_grace_ends(
    two_workers: Gateway,
) -> None:
    workers = [process.pid for process in two_workers.processes("web")]
    old = manage(two_workers, "/keys", {"name": "rotated"})["key"]
    new = manage(two_workers, f"/keys/{old[3:11]}/rotate", {"grace_hours": 4 / 3600})["key"]

    def statuses() -> list[int]:
        return [status(two_workers, worker, key) for worker in workers for key in (old, new)]

    assert statuses() == [200] * 4
    eventually(lambda: statuses() == [401, 200] * 2, "the old one's grace has ended")


def manage(running: Gateway, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    answer = Manager(running)("POST", path, body)
    assert answer.status in (200, 201), answer.json
    return dict(answer.json)


def on(connection: http.client.HTTPConnection, key: str) -> int:
    connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
    response = connection.getresponse()
    response.read()
    return response.status


def last_let_in(connection: http.client.HTTPConnection, key: str) -> float:
    """When the last request began that was not refused, by the monotonic clock: how long an answer
    takes on a busy machine is not what is asked."""
    last = float("-inf")
    while True:
        began = time.monotonic()
        if on(connection, key) == 401:
            return last
        last = began
        time.sleep(0.01)  # the processor is for those who look up the key
