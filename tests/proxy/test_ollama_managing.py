"""What clients of Ollama change: models are pulled, made, copied and deleted, and files handed
over."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError

from models_registry.downloads import asking, uploads
from models_registry.models import Alias, Download, ModelFile, Preset
from proxy.downloads import Downloads
from proxy.keys import create_key
from proxy.ollama import pulling
from proxy.scopes import Scope
from scheduler.protocol import Refused
from tests.django.registry_rows import (
    FakeScheduler,
    gguf,
    make_model_file,
    make_preset,
    use_scheduler,
    use_stand_in_engine,
)
from tests.support.polling import eventually

from .asking import Exchange
from .fakes import Connection, Received

pytestmark = pytest.mark.django_db(transaction=True)

BLOB = b"GGUF" + bytes(range(256)) * 20
DIGEST = "sha256:" + hashlib.sha256(BLOB).hexdigest()
AWAY = "sha256:" + "0" * 64


async def never_asked(received: Received, child: Connection) -> None:
    raise AssertionError("nothing here asks a child")


waited = sync_to_async(eventually)


def is_there(path: Path) -> bool:
    return path.exists()


def key(scope: str = Scope.ADMIN) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + create_key("robot", scopes=[scope]).encode())]


@pytest.fixture
def admin() -> list[tuple[bytes, bytes]]:
    return key()


@pytest.fixture(autouse=True)
def registry(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    """One model that a person has made, on a file that nobody fetched."""
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    scheduler = FakeScheduler()
    use_scheduler(monkeypatch, scheduler)
    settings.CORRAL_VAR = tmp_path / "var"
    settings.CORRAL_HF_CACHE = str(tmp_path / "cache")
    make_preset("base", make_model_file(tmp_path / "base.gguf"))
    return scheduler


async def asked(
    house: Any,
    path: str,
    body: object = None,
    *,
    method: str = "POST",
    headers: Any = (),
    raw: bytes | None = None,
) -> Exchange:
    data = json.dumps(body).encode() if raw is None else raw
    async with house(never_asked, downloads=Downloads()) as h:
        return await Exchange(h.app, path, method=method, body=data, headers=headers).end()


def lines(exchange: Exchange) -> list[dict[str, Any]]:
    return [json.loads(line) for line in exchange.body.splitlines()]


def statuses(exchange: Exchange) -> list[str]:
    return [line.get("status", "") for line in lines(exchange)]


# Pull ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["base", "base:latest", "registry.ollama.ai/library/base"])
async def test_a_pull_of_what_is_there_takes_no_admin_key(house, name: str) -> None:
    exchange = await asked(house, "/api/pull", {"model": name})

    assert exchange.header(b"content-type") == b"application/x-ndjson"
    assert lines(exchange) == [{"status": "pulling manifest"}, {"status": "success"}]
    assert not await Download.objects.aexists()


async def test_a_pull_that_does_not_stream_is_one_object(house) -> None:
    exchange = await asked(house, "/api/pull", {"name": "base", "stream": False})

    assert exchange.json == {"status": "success"}
    assert exchange.header(b"content-type").startswith(b"application/json")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [
        ("llama3.2", "ollama", "llama3.2"),
        ("llama3.2:1b", "ollama", "llama3.2:1b"),
        ("registry.ollama.ai/library/llama3.2:1b", "ollama", "llama3.2:1b"),
        ("someone/model:tag", "ollama", "someone/model:tag"),
        ("hf.co/team/m", "hub", "team/m"),
        ("hf.co/team/m:latest", "hub", "team/m"),
        ("huggingface.co/team/m:Q8_0", "hub", "team/m:Q8_0"),
    ],
)
def test_a_name_says_where_it_is_fetched_from(name: str, kind: str, target: str) -> None:
    assert pulling.target_of(name) == (kind, target)


@sync_to_async
def patiently(change: Callable[[], Any]) -> Any:
    """The tests' database is in memory: two threads cannot be at one table at once."""
    for _ in range(200):
        try:
            return change()
        except OperationalError:
            time.sleep(0.01)
    return change()


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which downloads have been asked for, without a look at the database."""
    begin, Pulling.begun = pulling.begin, []

    def beginning(name: str, asker: Any) -> int:
        download = begin(name, asker)
        Pulling.begun.append(download)
        return download

    monkeypatch.setattr(pulling, "begin", beginning)


class Pulling:
    """A pull under way, whose download the test does."""

    begun: list[int]

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange

    async def row(self) -> Download:
        await waited(lambda: self.begun, "a download is asked for")
        return await patiently(lambda: Download.objects.get(pk=self.begun[0]))

    async def becomes(self, **fields: Any) -> None:
        row = await self.row()
        await patiently(lambda: Download.objects.filter(pk=row.pk).update(**fields))

    async def until(self, status: str) -> None:
        await waited(lambda: status.encode() in self.exchange.body, f"{status} is told")


def files(done: int) -> list[dict[str, Any]]:
    sound = {"checksum": DIGEST, "path": "m.gguf", "done": done, "size": 1000}
    return [sound, {"checksum": "", "path": "folder/mmproj.gguf", "done": 0, "size": None}]


async def test_a_pull_tells_how_far_it_is_until_it_is_there(house, admin) -> None:
    async with house(never_asked, downloads=Downloads()) as h:
        body = json.dumps({"model": "llama3.2:1b", "insecure": True}).encode()
        exchange = Exchange(h.app, "/api/pull", body=body, headers=admin)
        pull = Pulling(exchange)
        await pull.becomes(state="running", files=files(250))
        await pull.until('"completed":250')
        await pull.becomes(files=files(1000))
        await pull.until('"completed":1000')
        await patiently(lambda: Preset.objects.create(name="llama3.2:1b"))
        await pull.becomes(state="done", name="llama3.2:1b")
        await exchange.end()

    row = await pull.row()
    assert (row.kind, row.target) == ("ollama", "llama3.2:1b")
    assert row.asked_by.startswith("the admin key robot")
    short = f"pulling {DIGEST[7:19]}"
    assert statuses(exchange)[0] == "pulling manifest"
    told = [line for line in lines(exchange) if line["status"] == short]
    assert told == [
        {"status": short, "digest": DIGEST, "total": 1000, "completed": done}
        for done in (250, 1000)
    ]
    assert {"status": "pulling mmproj.gguf", "completed": 0} in lines(exchange)
    assert statuses(exchange)[-3:] == ["verifying sha256 digest", "writing manifest", "success"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"state": "failed", "error": "404: there is no such model"}, "there is no such model"),
        ({"state": "cancelled"}, "cancelled"),
        ({"state": "paused"}, "paused"),
        ({"state": "done", "name": "x", "error": "the name x is taken"}, "the name x is taken"),
    ],
)
async def test_a_pull_that_comes_to_nothing_ends_in_an_error(
    house, admin, fields: dict[str, Any], told: str
) -> None:
    async with house(never_asked, downloads=Downloads()) as h:
        exchange = Exchange(h.app, "/api/pull", body=b'{"model": "x"}', headers=admin)
        pull = Pulling(exchange)
        await pull.until("pulling manifest")
        await pull.becomes(**fields)
        await exchange.end()

    assert exchange.status == 200
    assert told in lines(exchange)[-1]["error"]
    assert "success" not in statuses(exchange)


async def test_a_pull_that_fails_without_a_stream_is_an_error_status(house, admin) -> None:
    async with house(never_asked, downloads=Downloads()) as h:
        body = b'{"model": "x", "stream": false}'
        exchange = Exchange(h.app, "/api/pull", body=body, headers=admin)
        await Pulling(exchange).becomes(state="failed", error="no room")
        await exchange.end()

    assert exchange.status == 502
    assert "no room" in exchange.json["error"]


async def test_two_pulls_share_a_download_and_a_paused_one_goes_on(house, admin) -> None:
    row = await sync_to_async(asking.create)("ollama", "x", asked_by="somebody")
    await sync_to_async(asking.pause)(row.pk)
    async with house(never_asked, downloads=Downloads()) as h:
        pulls = [
            Exchange(h.app, "/api/pull", body=b'{"model": "x"}', headers=admin) for _ in range(2)
        ]
        for each in pulls:
            await Pulling(each).until("pulling manifest")
        state = (await patiently(lambda: Download.objects.get(pk=row.pk))).state
        await patiently(lambda: Preset.objects.create(name="x:latest"))
        await patiently(lambda: Download.objects.update(state="done", name="x:latest"))
        for each in pulls:
            await each.end()

    assert state == "queued"
    assert await Download.objects.acount() == 1
    assert [statuses(each)[-1] for each in pulls] == ["success", "success"]


async def test_who_stops_listening_leaves_the_download_as_it_is(house, admin) -> None:
    async with house(never_asked, downloads=Downloads()) as h:
        exchange = Exchange(h.app, "/api/pull", body=b'{"model": "x"}', headers=admin)
        await Pulling(exchange).until("pulling manifest")
        exchange.leave()
        await exchange.end()

    row = await Download.objects.aget()
    assert (row.state, row.wanted) == ("queued", "running")


async def test_a_stop_of_the_gateway_is_told_in_a_last_line(house, admin) -> None:
    async with house(never_asked, downloads=Downloads()) as h:
        exchange = Exchange(h.app, "/api/pull", body=b'{"model": "x"}', headers=admin)
        await Pulling(exchange).until("pulling manifest")
        await h.app.drain(5.0)
        await exchange.end()

    assert lines(exchange)[-1]["code"] == "shutting_down"


@pytest.mark.parametrize(("failures", "code"), [(1, "request_cancelled"), (99, "internal_error")])
async def test_a_database_that_fails_for_a_moment_ends_no_pull(
    monkeypatch: pytest.MonkeyPatch, failures: int, code: str
) -> None:
    monkeypatch.setattr(pulling, "LOOK_SECONDS", 0.0)
    left = iter(range(failures))

    async def do(look: Callable[[], Any]) -> Any:
        if next(left, None) is not None:
            raise OperationalError("database is locked")
        return await sync_to_async(look)()

    with pytest.raises(Refused) as caught:
        _ = [step async for step in pulling.steps_of(1, do)]

    assert caught.value.code == code


# Create -------------------------------------------------------------------------------------


async def test_a_model_is_made_of_another_with_parameters_of_its_own(house, admin) -> None:
    parameters = {"temperature": 0.2, "num_ctx": 4096, "stop": ["a", "b"], "tfs_z": 1}
    wish = {"model": "brief", "from": "base", "parameters": parameters, "template": "{{ .P }}"}
    wish["system"] = "Be brief."

    exchange = await asked(house, "/api/create", wish, headers=admin)

    said = statuses(exchange)
    assert said[-2:] == ["writing manifest", "success"]
    assert any("TEMPLATE is not taken" in each for each in said)
    assert any("tfs_z" in each for each in said)
    made = await Preset.objects.select_related("base", "model_file").aget(name="brief")
    assert made.base is not None
    assert made.base.name == "base"
    assert made.model_file == await ModelFile.objects.aget()
    assert made.ctx_size == 4096
    assert made.request_defaults == {
        "temperature": 0.2,
        "stop": ["a", "b"],
        "system": "Be brief.",
    }


async def test_a_model_that_is_made_again_is_another_one(house, admin) -> None:
    first = {"model": "brief", "from": "base", "parameters": {"num_ctx": 4096, "seed": 1}}
    await asked(house, "/api/create", first, headers=admin)
    second = {"model": "brief:latest", "from": "base", "parameters": {"seed": 2}, "stream": False}

    exchange = await asked(house, "/api/create", second, headers=admin)

    assert exchange.json == {"status": "success"}
    made = await Preset.objects.aget(name="brief")
    assert (made.ctx_size, made.request_defaults) == (None, {"seed": 2})


async def test_a_model_made_of_itself_keeps_what_is_not_named(house, admin) -> None:
    wish = {"model": "base", "from": "base", "parameters": {"num_ctx": 2048}}

    exchange = await asked(house, "/api/create", wish, headers=admin)

    assert exchange.status == 200
    made = await Preset.objects.aget(name="base")
    assert (made.ctx_size, made.base_id) == (2048, None)


@pytest.mark.parametrize(
    ("wish", "status", "told"),
    [
        ({}, 400, "model is required"),
        ({"model": "x"}, 400, "neither 'from' or 'files' was specified"),
        ({"model": "x", "from": "y"}, 404, "model 'y' not found"),
        ({"model": "", "from": "base"}, 400, "model is required"),
        ({"model": "a\nb", "from": "base"}, 400, "invalid model name"),
        ({"model": "x", "from": "base", "adapters": {"a": AWAY}}, 400, "LoRA"),
        ({"model": "x", "from": "base", "quantize": "q4_K_M"}, 400, "not quantised here"),
        ({"model": "x", "from": "base", "messages": [{"role": "user"}]}, 400, "conversation"),
        ({"model": "x", "modelfile": "FROM base"}, 400, "import_modelfile"),
        ({"model": "x", "from": 7}, 400, "not as Ollama has it"),
        ({"model": "x", "files": {"m.gguf": AWAY}}, 400, "no blob"),
        ({"model": "x", "files": {"m.gguf": "md5:1"}}, 400, "invalid digest"),
        ({"model": "fetched", "from": "base"}, 409, "is there already"),
        ({"model": "other", "from": "base"}, 409, "an alias of 'base'"),
        ({"model": "x", "from": "base", "license": "x" * (1 << 20)}, 413, "larger than"),
    ],
)
async def test_what_cannot_be_made_is_refused_and_nothing_is(
    house, admin, tmp_path: Path, wish: dict[str, Any], status: int, told: str
) -> None:
    def there() -> None:
        file = make_model_file(tmp_path / "fetched.gguf")
        make_preset("fetched", file, source="cache")
        Alias.objects.create(name="other", preset=Preset.objects.get(name="base"))

    await sync_to_async(there)()

    exchange = await asked(house, "/api/create", wish, headers=admin)

    assert exchange.status == status
    assert told in exchange.json["error"]
    assert await Preset.objects.acount() == 2


# Copy and delete ------------------------------------------------------------------------------


async def test_a_copy_has_all_options_of_its_source(house, admin) -> None:
    await Preset.objects.filter(name="base").aupdate(ctx_size=1234)

    exchange = await asked(
        house, "/api/copy", {"source": "base:latest", "destination": "twin"}, headers=admin
    )

    assert (exchange.status, exchange.body) == (200, b"")
    assert (await Preset.objects.aget(name="twin")).ctx_size == 1234


@pytest.mark.parametrize(
    ("source", "destination", "status", "told"),
    [
        ("nobody", "x", 404, "model 'nobody' not found"),
        ("base", "base:latest", 409, "is there already"),
        ("base", "", 400, "model is required"),
        ("base", "a\tb", 400, "invalid model name"),
    ],
)
async def test_a_copy_that_cannot_be_is_refused(
    house, admin, source: str, destination: str, status: int, told: str
) -> None:
    exchange = await asked(
        house, "/api/copy", {"source": source, "destination": destination}, headers=admin
    )

    assert exchange.status == status
    assert told in exchange.json["error"]
    assert await Preset.objects.acount() == 1


async def test_a_model_that_people_made_goes_and_its_file_stays(
    house, admin, tmp_path: Path
) -> None:
    exchange = await asked(house, "/api/delete", {"model": "base"}, method="DELETE", headers=admin)

    assert (exchange.status, exchange.body) == (200, b"")
    assert not await Preset.objects.aexists()
    assert is_there(tmp_path / "base.gguf")


async def test_a_model_that_was_fetched_goes_with_its_file(house, admin, tmp_path: Path) -> None:
    path = gguf(tmp_path / "var" / "models" / "ollama" / "sha256-1.gguf")

    def there() -> None:
        file = ModelFile.objects.create(path=str(path), source="download")
        make_preset("tiny:latest", file, source="download")

    await sync_to_async(there)()

    exchange = await asked(house, "/api/delete", {"name": "tiny"}, method="DELETE", headers=admin)

    assert exchange.status == 200
    assert not is_there(path)


async def test_an_alias_goes_alone_and_a_download_is_cancelled(house, admin) -> None:
    base = await Preset.objects.aget(name="base")
    await Alias.objects.acreate(name="other", preset=base)
    row = await sync_to_async(asking.create)("ollama", "coming", asked_by="somebody")

    for name in ("other", "coming"):
        answer = await asked(house, "/api/delete", {"model": name}, method="DELETE", headers=admin)
        assert answer.status == 200

    assert not await Alias.objects.aexists()
    assert await Preset.objects.acount() == 1
    await row.arefresh_from_db()
    assert row.state == "cancelled"


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        ("nobody", 404, "model 'nobody' not found"),
        ("found", 409, "would come back: it is from Ollama's store"),
        ("base", 409, "It is the base of heir"),
        ("", 400, "model is required"),
    ],
)
async def test_what_cannot_be_deleted_says_why(
    house, admin, tmp_path: Path, name: str, status: int, told: str
) -> None:
    def there() -> None:
        file = make_model_file(tmp_path / "found.gguf")
        make_preset("found", file, source="ollama")
        base = Preset.objects.get(name="base")
        make_preset("heir", file, base=base)

    await sync_to_async(there)()

    exchange = await asked(house, "/api/delete", {"model": name}, method="DELETE", headers=admin)

    assert exchange.status == status
    assert told in exchange.json["error"]
    assert await Preset.objects.acount() == 3


# Blobs ----------------------------------------------------------------------------------------


async def hand_over(house: Any, admin: Any, data: bytes = BLOB, digest: str = DIGEST) -> Exchange:
    return await asked(house, f"/api/blobs/{digest}", raw=data, headers=admin)


async def test_a_file_is_handed_over_and_becomes_a_model(house, admin) -> None:
    before = await asked(house, f"/api/blobs/{DIGEST}", method="HEAD", headers=admin)
    first = await hand_over(house, admin)
    again = await hand_over(house, admin)
    after = await asked(house, f"/api/blobs/{DIGEST}", method="HEAD", headers=admin)
    wish = {"model": "mine", "files": {"m.gguf": DIGEST}, "parameters": {"num_ctx": 512}}
    made = await asked(house, "/api/create", wish, headers=admin)

    assert [each.status for each in (before, first, again, after)] == [404, 201, 200, 200]
    assert statuses(made)[:2] == ["parsing GGUF", f"using existing layer {DIGEST}"]
    preset = await Preset.objects.select_related("model_file").aget(name="mine")
    assert (preset.ctx_size, preset.source) == (512, "download")
    assert preset.model_file is not None
    assert Path(preset.model_file.path).parent == uploads.folder()
    assert Path(preset.model_file.path).read_bytes() == BLOB  # noqa: ASYNC240


@pytest.mark.parametrize(
    ("data", "digest", "status", "told"),
    [
        (BLOB, AWAY, 400, "digest mismatch"),
        (b"PK\x03\x04" + BLOB, DIGEST, 400, "no GGUF"),
        (b"", DIGEST, 400, "no GGUF came"),
        (b"GG", DIGEST, 400, "no GGUF came"),
        (BLOB, "md5:1", 400, "invalid digest"),
        (BLOB, "sha256:..", 400, "invalid digest"),
    ],
)
async def test_what_is_no_model_file_is_not_kept(
    house, admin, data: bytes, digest: str, status: int, told: str
) -> None:
    exchange = await hand_over(house, admin, data, digest)

    assert exchange.status == status
    assert told in exchange.json["error"]
    assert kept() == []


def kept() -> list[Path]:
    return [path for path in uploads.folder().rglob("*") if path.is_file()]


async def test_one_that_is_too_large_or_breaks_off_is_not_kept(house, admin) -> None:
    path = f"/api/blobs/{DIGEST}"
    async with house(never_asked, downloads=Downloads(), max_upload=1000) as h:
        large = await Exchange(h.app, path, body=BLOB, headers=admin).end()
    async with house(never_asked, downloads=Downloads()) as h:
        broken = Exchange(h.app, path, body=None, headers=admin)
        broken.give(BLOB[:1000], more=True)
        broken.leave()
        await broken.end()

    assert (large.status, large.json["code"]) == (413, "body_too_large")
    assert (broken.status, "broke off" in broken.json["error"]) == (400, True)
    assert kept() == []


async def test_a_full_disk_refuses_it_before_it_is_full(
    house, admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "free_bytes", lambda folder: uploads.KEPT_FREE)

    exchange = await hand_over(house, admin)

    assert exchange.status == 413
    assert "there is no room" in exchange.json["error"]
    assert kept() == []


async def test_what_nobody_has_made_a_model_of_goes_with_time(house, admin) -> None:
    await hand_over(house, admin)
    used = b"GGUF used"
    name = f"sha256:{hashlib.sha256(used).hexdigest()}"
    await hand_over(house, admin, used, name)
    wish = {"model": "mine", "files": {"m.gguf": name}}
    assert (await asked(house, "/api/create", wish, headers=admin)).status == 200
    dead = uploads.folder() / ".parts" / "1.upload"
    dead.write_bytes(b"GGUF")
    old = time.time() - uploads.UNUSED_SECONDS - 1
    for path in kept():
        os.utime(path, (old, old))

    await sync_to_async(uploads.sweep)()

    assert [path.name for path in kept()] == [f"sha256-{name[7:]}.gguf"]


# Who may, and what is refused -------------------------------------------------------------------

CHANGES = [
    ("POST", "/api/pull", {"model": "new"}),
    ("POST", "/api/create", {"model": "x", "from": "base"}),
    ("POST", "/api/copy", {"source": "base", "destination": "x"}),
    ("DELETE", "/api/delete", {"model": "base"}),
    ("POST", f"/api/blobs/{DIGEST}", {}),
    ("HEAD", f"/api/blobs/{DIGEST}", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES, ids=lambda value: str(value)[:20])
async def test_it_takes_an_admin_key(house, method: str, path: str, body: object) -> None:
    none = await asked(house, path, body, method=method)
    inference = await sync_to_async(key)(Scope.INFER)
    wrong = await asked(house, path, body, method=method, headers=inference)

    assert (none.status, wrong.status) == (401, 403)
    assert wrong.json["code"] == "permission_denied"
    assert await Preset.objects.acount() == 1
    assert not await Download.objects.aexists()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/push"),
        ("POST", "/api/me"),
        ("POST", "/api/signout"),
        ("DELETE", "/api/user/keys/1"),
        ("POST", "/api/experimental/web_search"),
        ("POST", "/api/experimental/web_fetch"),
        ("GET", "/api/experimental/model-recommendations"),
    ],
)
async def test_what_is_ollamas_clouds_is_refused_for_good(house, method: str, path: str) -> None:
    exchange = await asked(house, path, {"model": "base"}, method=method)

    assert exchange.status == 501
    assert isinstance(exchange.json["error"], str)


@pytest.mark.parametrize("path", ["/api/pull", "/api/create", "/api/copy"])
@pytest.mark.parametrize(
    ("raw", "told"),
    [(b"", "missing request body"), (b"{", "not valid JSON"), (b"[]", "not as Ollama has it")],
)
async def test_a_body_that_makes_no_sense_is_refused(
    house, admin, path: str, raw: bytes, told: str
) -> None:
    exchange = await asked(house, path, raw=raw, headers=admin)

    assert exchange.status == 400
    assert told in exchange.json["error"]
