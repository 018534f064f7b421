"""A gateway over PostgreSQL, from its first run on: it is edited, its database goes away in every
way, and comes back."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from models_registry.engine_path import llama_server
from tests.support.asking import Client, whole
from tests.support.gateway import Gateway, gateway
from tests.support.managing import Manager
from tests.support.polling import eventually
from tests.support.postgres import Cluster, cluster

pytestmark = [pytest.mark.each_database, pytest.mark.slow, pytest.mark.engine]

FAKE = Path(__file__).resolve().parents[1] / "process/fake_llama_server.py"
SECONDS_A_TOKEN = 0.05
WORDS = 300
"""Of an answer that goes on while the database is away."""
UNKNOWN = "ck_aaaaaaaa_" + "x" * 43
MODELS = {"alpha": {"seed": 1}}


@pytest.fixture(scope="module")
def mortal() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.fixture(scope="module")
def running(mortal: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("pg")
    env = {"CORRAL_LLAMA_SERVER": str(engine(folder)), "DATABASE_URL": mortal.url()}
    with gateway(folder, env=env, models=MODELS, tables=False) as started:
        made = started.manage("createkey", "robot", "--admin")
        assert made.returncode == 0, made.stderr
        started.admin_key = made.stdout.split()[-1]
        yield started


def engine(folder: Path) -> Path:
    """One that answers slowly and for nothing; measuring (its sockets are named m-…) is the real
    one's."""
    program = folder / "llama-server"
    program.write_text(
        f"""#!/bin/sh
case "$*" in
    */m-*.sock*) ;;
    *alpha.gguf*) exec {sys.executable} {FAKE} "$@" --slow-tokens {SECONDS_A_TOKEN} ;;
esac
exec {llama_server()} "$@"
"""
    )
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def whole_again(running: Gateway, mortal: Cluster) -> Iterator[None]:
    """All is there, and no process was started anew because of the database."""
    before = lasting(running)
    yield
    if mortal.process is None:
        mortal.start()
    running.wait_ready()
    assert lasting(running) == before


def lasting(running: Gateway) -> set[tuple[str, int]]:
    """Its processes that stay: models and measurements come and go."""
    passing = ("child", "measure")
    return {(each.role, each.pid) for each in running.processes() if each.role not in passing}


def status(client: Client, path: str, key: str = "") -> int:
    return client.request("GET", path, key=key or client.key, timeout=30).status


def test_the_first_run_makes_tables_an_account_and_a_key_that_works(
    running: Gateway, mortal: Cluster
) -> None:
    assert whole(running.client.chat("alpha", max_tokens=2))

    assert mortal.sql("SELECT username FROM auth_user") == ["admin"]
    assert mortal.sql("SELECT name FROM proxy_apikey ORDER BY id") == ["first run", "robot"]
    assert not (running.var / "corral.sqlite3").exists()


def test_an_edit_counts_for_the_next_request(running: Gateway, mortal: Cluster) -> None:
    made = running.client.request(
        "POST",
        "/router/api/aliases",
        {"name": "apples", "preset": "alpha"},
        key=running.admin_key,
    )
    assert made.status == 201, made.body
    again = running.client.request(
        "POST", "/router/api/aliases", {"name": "apples", "preset": "alpha"}, key=running.admin_key
    )

    assert again.json["error"]["param"] == "name"
    assert whole(running.client.chat("apples", max_tokens=2))


def test_who_edits_while_another_deletes_is_told_that_it_is_gone(running: Gateway) -> None:
    """What is checked in a transaction still holds when it writes, and none gets in another's way:
    the gateway's own connections take the lock (docs/decisions/0027-one-writer.md)."""
    ask = Manager(running)
    ask.make("fleeting", like="alpha")
    edits: list[tuple[str, str, dict[str, int] | None]] = [
        ("PATCH", "/presets/fleeting", {"ctx_size": 256 * number}) for number in range(1, 9)
    ]
    edits.insert(4, ("DELETE", "/presets/fleeting", None))
    with ThreadPoolExecutor(len(edits)) as people:
        answers = list(people.map(lambda edit: ask(*edit), edits))

    assert {each.status for each in answers} <= {200, 204, 404}, [each.body for each in answers]
    assert ask("GET", "/presets/fleeting").status == 404


def test_of_many_who_take_a_name_one_gets_it(running: Gateway) -> None:
    ask = Manager(running)
    with ThreadPoolExecutor(8) as people:
        answers = list(people.map(lambda _: ask("POST", "/teams", {"name": "wanted"}), range(8)))

    assert sorted(each.status for each in answers) == [201] + [422] * 7
    assert {each.json["error"]["param"] for each in answers if each.status == 422} == {"name"}


def test_what_ran_is_recorded(running: Gateway, mortal: Cluster) -> None:
    assert whole(running.client.chat("alpha", max_tokens=2))

    query = "SELECT count(*) FROM scheduler_instancerecord WHERE loaded_at IS NOT NULL"
    eventually(lambda: int(mortal.sql(query)[0]) > 0, "the load is recorded")


def test_a_backend_that_is_killed_is_noticed_by_nobody_who_has_a_key(
    running: Gateway, mortal: Cluster
) -> None:
    """The server then cuts off everybody, and starts them anew."""
    with running.client.stream("alpha", max_tokens=WORDS // 10) as stream:
        stream.next_event()
        assert status(running.client, "/v1/models") == 200
        os.kill(mortal.backends()[-1], signal.SIGKILL)

        assert status(running.client, "/v1/models") == 200
        assert stream.to_end().finished


def test_while_the_server_is_dead_answers_go_on_and_nobody_new_is_let_in(
    running: Gateway, mortal: Cluster
) -> None:
    client = running.client
    with client.stream("alpha", max_tokens=WORDS) as stream:
        stream.next_event()
        assert status(client, "/v1/models") == 200
        mortal.kill()

        assert status(client, "/v1/models") == 200  # the key was good a moment ago
        unknown = client.request("GET", "/v1/models", key=UNKNOWN, timeout=30)
        assert (unknown.status, unknown.code) == (503, "auth_unavailable")
        assert unknown.headers["retry-after"]
        eventually(lambda: status(client, "/ready") == 503, "it is not ready", 30)
        assert status(client, "/health") == 200
        eventually(
            lambda: status(client, "/v1/models") == 503, "who was known is refused as well", 30
        )
        managed = client.request("GET", "/router/api/keys", key=running.admin_key, timeout=30)
        assert managed.status == 503, managed.body

        mortal.start()
        assert stream.to_end().finished
    running.wait_ready()
    assert status(client, "/v1/models") == 200
    assert status(client, "/v1/models", UNKNOWN) == 401
    assert whole(client.chat("alpha", max_tokens=2))


def test_a_server_that_stands_still_holds_up_nobody_for_long(
    running: Gateway, mortal: Cluster
) -> None:
    client = running.client
    assert status(client, "/v1/models") == 200
    assert mortal.process is not None
    still = [*mortal.backends(), mortal.process.pid]
    for pid in still:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert status(client, "/v1/models") == 200
        assert status(client, "/v1/models", UNKNOWN) == 503
        eventually(lambda: status(client, "/ready") == 503, "it is not ready", 30)
        assert status(client, "/health") == 200
    finally:
        for pid in still:
            os.kill(pid, signal.SIGCONT)
    running.wait_ready()
    assert status(client, "/v1/models", UNKNOWN) == 401


def test_what_happened_while_the_server_was_away_is_recorded_when_it_is_back(
    running: Gateway, mortal: Cluster
) -> None:
    query = "SELECT count(*) FROM scheduler_instancerecord WHERE ended_at IS NOT NULL"
    assert whole(running.client.chat("alpha", max_tokens=2))
    before = int(mortal.sql(query)[0])
    mortal.kill()
    running.unload_all()
    mortal.start()

    eventually(lambda: int(mortal.sql(query)[0]) == before + 1, "the end is recorded")
