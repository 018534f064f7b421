"""docs/rest.md is what the management API does: its examples run, its table holds every route."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path

import pytest
from ninja import Schema

from models_registry.models import Download, Measurement, ModelFile
from proxy.models import ApiKey
from routerproj.api import api

from .management import BASE, Answer, Manager
from .registry_rows import gguf

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "rest.md").read_text()
COMMANDS = [
    command
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for command in block.replace("\\\n", " ").splitlines()
    if command.startswith("curl")
]

curl = ArgumentParser(prog="curl", exit_on_error=False)
curl.add_argument("url")
curl.add_argument("-s", action="store_true")
curl.add_argument("-X", dest="method")
curl.add_argument("-H", dest="headers", action="append", default=[])
curl.add_argument("--json")


def run(command: str, manager: Manager) -> Answer:
    """As a shell and curl would."""
    key = manager.headers["Authorization"].removeprefix("Bearer ")
    words = shlex.split(command.replace("$CORRAL_KEY", key).replace("$CORRAL", ""))
    asked = curl.parse_args(words[1:])
    sent = dict(header.split(": ", 1) for header in asked.headers)
    method = asked.method or ("POST" if asked.json else "GET")
    body = asked.json.encode() if asked.json else None
    return Manager(client=manager.client).ask(method, asked.url, body, sent)


@pytest.mark.django_db
def test_every_example_runs(manager, tmp_path):
    gguf(tmp_path / "tiny.gguf")
    assert len(COMMANDS) > 15
    for command in COMMANDS:
        file, key = ModelFile.objects.first(), ApiKey.objects.filter(name="ci").first()
        download = Download.objects.first()
        for written, meant in (
            ("/srv/models", str(tmp_path)),
            ('"model_file": 1', f'"model_file": {file.pk if file else 0}'),
            ("/models/1", f"/models/{file.pk if file else 0}"),
            ("/downloads/1", f"/downloads/{download.pk if download else 0}"),
            ("abcdefgh", key.public_id if key else ""),
        ):
            command = command.replace(written, meant)
        answer = run(command, manager)
        assert answer.status < 300, f"{command}\n{answer.text}"

    assert not ModelFile.objects.exists()
    assert ApiKey.objects.get(name="ci").revoked_at is not None
    assert not Measurement.objects.exists()


def test_every_example_sends_its_key():
    assert all('-H "Authorization: Bearer $CORRAL_KEY"' in command for command in COMMANDS)


def test_every_resource_has_an_example():
    resources = {path.removeprefix("/").split("/")[0] for _, path in routes()}

    shown = {re.search(r"\$CORRAL/([\w-]+)", command)[1] for command in COMMANDS}
    assert shown == resources


def test_the_table_holds_every_route_and_no_other():
    rows = re.findall(r"^\| `([A-Z]+) (/\S+)` \|", TEXT, re.M)

    assert sorted(rows) == sorted(routes())


def routes() -> list[tuple[str, str]]:
    document = api.get_openapi_schema(path_prefix=BASE + "/")
    return [
        (method.upper(), path.removeprefix(BASE))
        for path, operations in document["paths"].items()
        for method in operations
    ]


def test_each_schema_has_a_name_of_its_own():
    """Of two with one name the document holds one, for both."""
    there = {
        (schema.__name__, schema.__module__)
        for schema in _below(Schema)
        if schema.__module__.startswith(("proxy.", "scheduler.", "models_registry.", "routerproj."))
        and "[" not in schema.__name__
    }
    named = Counter(name for name, _ in there)

    assert [name for name, number in named.items() if number > 1] == []


def _below(schema: type[Schema]) -> set[type[Schema]]:
    below = set(schema.__subclasses__())
    return below.union(*map(_below, below))
