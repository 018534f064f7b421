"""B1, B2: a key and a prompt are nowhere but where they belong. They go through every door, in good
requests and in bad ones, and then everything that the gateway has written, shown or keeps open to
others of the machine is searched for them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.security.conftest import SECRETS, House
from tests.support import prepared

PROMPT = "CANARYcanaryCANARYprompt"


def every_door(house: House) -> Iterator[tuple[str, str, Any, dict[str, str]]]:
    """Method, path, body, headers; good and bad ones."""
    key = {"Authorization": f"Bearer {house.reds}"}
    chat = [{"role": "user", "content": PROMPT}]
    short = {"model": "alpha", "max_tokens": 2}
    for path, body in (
        ("/v1/chat/completions", {"messages": chat}),
        ("/v1/chat/completions", {"messages": chat, "stream": True}),
        ("/v1/completions", {"prompt": PROMPT, "stop": [PROMPT], "user": PROMPT}),
        ("/completion", {"prompt": PROMPT, "n_predict": 2}),
        ("/v1/messages", {"messages": chat}),
        ("/v1/responses", {"input": PROMPT, "max_output_tokens": 2}),
        ("/api/chat", {"messages": chat, "options": {"num_predict": 2}}),
        ("/api/generate", {"prompt": PROMPT, "options": {"num_predict": 2}}),
        ("/tokenize", {"content": PROMPT}),
        ("/apply-template", {"messages": chat}),
        ("/v1/embeddings", {"input": PROMPT}),
        # Bad ones: what is wrong may be told, what was said not
        ("/v1/chat/completions", {"messages": PROMPT}),
        ("/v1/chat/completions", {"messages": [{"role": PROMPT}], "tools": PROMPT}),
        # (a grammar that cannot be parsed is printed by the engine: docs/security.md, B2)
        ("/v1/completions", {"prompt": PROMPT, "grammar": "root ::= nosuch"}),
        ("/v1/completions", {"prompt": PROMPT, "json_schema": {"type": PROMPT}}),
        ("/infill", {"input_prefix": PROMPT}),
        ("/v1/rerank", {"query": PROMPT, "documents": [PROMPT]}),
    ):
        yield "POST", path, {**short, **body}, key
    yield "POST", "/v1/completions", b'{"model":"alpha","prompt":"' + PROMPT.encode(), key
    yield "POST", "/v1/completions", {"model": "nosuch", "prompt": PROMPT}, key
    yield "POST", "/v1/completions", {**short, "prompt": PROMPT}, {"X-Api-Key": house.reds}
    yield "POST", "/v1/completions", {**short, "prompt": PROMPT}, {**key, "X-Api-Key": "other"}
    yield "GET", f"/v1/models?api_key={house.reds}", None, {}
    yield "POST", "/router/api/presets", {"name": house.reds, "model_file": PROMPT}, key
    yield "GET", "/admin/login/?next=/admin/", None, key
    yield "GET", "/v1/models", None, {"Authorization": f"Basic {house.reds}"}


@pytest.fixture(scope="module")
def went_through(house: House) -> House:
    for method, path, body, headers in every_door(house):
        answer = house.gateway.client.request(method, path, body, key="", headers=headers)
        assert house.reds not in answer.body.decode(errors="replace"), path
        assert house.reds not in str(answer.headers), path
        assert (
            answer.status < 500
            or path in ("/infill", "/v1/rerank", "/v1/embeddings")
            or (answer.status == 500 and b"messages" in answer.body)
        ), (path, answer.status, answer.body)
    return house


def secret_of(key: str) -> str:
    return key[len("ck_aaaaaaaa_") :]


def test_neither_is_in_what_the_processes_print(went_through: House) -> None:
    printed = "\n".join(went_through.gateway.output)

    assert "127.0.0.1" in printed
    _assert_clean(printed, went_through, "the output")


def test_neither_is_in_any_file_of_the_state(went_through: House) -> None:
    """Database, journals, job queues, event log, logs of the children."""
    files = [path for path in went_through.gateway.var.rglob("*") if path.is_file()]

    assert prepared.DATABASE in {path.name for path in files}
    assert "alpha" in {path.parent.name for path in files if path.suffix == ".log"}  # its run's
    for path in files:
        _assert_clean(path.read_bytes().decode("latin-1"), went_through, str(path))


def test_a_dump_of_the_database_opens_nothing(went_through: House) -> None:
    """Keys are keyed digests, and no password stands in it."""
    database = went_through.gateway.var / prepared.DATABASE
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as rows:
        dump = "\n".join(rows.iterdump())

    assert went_through.reds.split("_")[1] in dump  # the public half, by which it is found
    assert "canary-password-of-plain" not in dump
    _assert_clean(dump, went_through, "the dump")


def test_neither_is_in_what_the_metrics_and_lists_tell(went_through: House) -> None:
    for path in (
        "/metrics", "/metrics?model=alpha", "/models", "/slots?model=alpha", "/props?model=alpha",
        "/router/api/usage/requests", "/router/api/record/decisions", "/router/api/status",
        "/router/api/keys", "/router/api/teams", "/router/api/instances", "/api/ps",
    ):  # fmt: skip
        answer = went_through.gateway.client.request("GET", path, key=went_through.admin)
        assert answer.status in (200, 404), path
        _assert_clean(answer.body.decode(), went_through, path)


def test_no_process_shows_a_key_to_others_of_the_machine(went_through: House) -> None:
    """Arguments are for everybody to read; the environment of a child is its own, and holds
    nothing of ours."""
    gateway = went_through.gateway
    processes = gateway.processes()

    assert {process.role for process in processes} >= {"serve", "scheduler", "web", "jobs", "child"}
    for process in processes:
        _assert_clean(_proc(process.pid, "cmdline"), went_through, f"arguments of {process.role}")
        environment = _proc(process.pid, "environ")
        assert secret_of(went_through.reds) not in environment
        assert PROMPT not in environment
        if process.role == "child":
            assert "CANARY" not in environment
            assert "canary" not in environment
            assert not re.search(r"(^|\0)(HF_TOKEN|DATABASE|DJANGO|CORRAL|LLAMA_A)", environment)


def test_what_is_kept_is_for_its_owner_only(went_through: House) -> None:
    var = went_through.gateway.var
    assert var.stat().st_mode & 0o077 == 0
    opened = [
        path
        for pattern in ("*.sqlite3*", "secret", "usage/*", "logs/*", "run/*")
        for path in var.glob(pattern)
        if path.stat().st_mode & 0o077 and not path.is_socket()
    ]

    assert opened == []


def _proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")


def _assert_clean(text: str, house: House, where: str) -> None:
    for name, part in {
        "a key": secret_of(house.reds),
        "an admin key": secret_of(house.admin),
        "a prompt": PROMPT,
        "a token": SECRETS["HF_TOKEN"],
        "the secret": SECRETS["CORRAL_SECRET_KEY"],
    }.items():
        assert part not in text, f"{name} stands in {where}"
