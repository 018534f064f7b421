"""What clients of Ollama may change: models are pulled, made of others, copied and deleted, and
files handed over. As for POST and DELETE /models it takes an admin key; a model that is there may
be pulled with any.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, TypeVar

import msgspec
from django.core.exceptions import ValidationError

from models_registry import creating, editing
from models_registry.access import Asker
from models_registry.audit.actors import Look
from models_registry.downloads import asking, uploads
from models_registry.downloads.removing import REMOVABLE
from models_registry.errors import ImportRefused, ManagementRefused, NotRegistered
from models_registry.imports.applying import told_of
from models_registry.models import Alias, Download, Preset, Source
from models_registry.names import spellings
from models_registry.sources.reading import CALLED
from proxy.answers import Header, Send, send_refusal
from proxy.audit_notes import by_asker
from proxy.callers import Caller
from proxy.carriage import Request
from proxy.conf import ProxyConfig
from proxy.endpoints import BLOBS, Endpoint
from proxy.forwarding import interruption
from proxy.model_changes import ModelChanges, remove_model, small_body
from proxy.ollama import pulling
from proxy.ollama.lines import SUCCESS, Object, tell
from proxy.ollama.wire import decoded
from proxy.queries import AWAY, DatabaseThread, database_away
from proxy.underway import UnderWay
from proxy.watch import Interrupted, Receive, Watch
from scheduler.protocol import Refused

T = TypeVar("T")

MOST_BYTES = 1 << 20
"""Of a body: a licence may stand in it."""
AT_ONCE = 1 << 20

_QUANTISE = "models are not quantised here: pull or hand over one that is"
_REFUSED_WISHES = {
    "adapters": "presets name no LoRA files: merge it into the model",
    "messages": "a client sends the whole conversation",
    "quantize": _QUANTISE,
    "quantization": _QUANTISE,
    "draft_files": "the draft model is set on the model file's page of the admin",
    "remote_host": "a preset on a remote server is made in the admin",
    "modelfile": "send its parts (from, parameters …), as newer clients do, or import it by "
    "`manage.py import_modelfile`",
}
_LEFT_OUT = {
    "template": "TEMPLATE",
    "license": "LICENSE",
    "renderer": "RENDERER",
    "parser": "PARSER",
    "requires": "REQUIRES",
}


class Pull(msgspec.Struct):
    model: str | None = None
    name: str | None = None
    stream: bool | None = None


class Create(msgspec.Struct):
    model: str | None = None
    name: str | None = None
    of: str | None = msgspec.field(default=None, name="from")
    files: dict[str, str] | None = None
    parameters: dict[str, Any] | None = None
    system: str | None = None
    template: str | None = None
    license: Any = None
    renderer: str | None = None
    parser: str | None = None
    requires: str | None = None
    adapters: Any = None
    messages: Any = None
    quantize: str | None = None
    quantization: str | None = None
    draft_files: Any = None
    remote_host: str | None = None
    modelfile: str | None = None
    stream: bool | None = None


class Copy(msgspec.Struct):
    source: str = ""
    destination: str = ""


class Delete(msgspec.Struct):
    model: str | None = None
    name: str | None = None


class ModelManagement:
    """Each change is done in the thread for changes: a disk may be slow."""

    def __init__(self, config: ProxyConfig, changes: ModelChanges, under_way: UnderWay) -> None:
        self._config = config
        self._under_way = under_way
        self._changes = changes
        self._reader = DatabaseThread("ollama-reading")

    async def close(self) -> None:
        await self._reader.close()

    async def __call__(self, endpoint: Endpoint, caller: Caller, request: Request) -> None:
        """Raises AnswerCut to the server for a client that does not read."""
        task = asyncio.current_task()
        assert task is not None
        watch = Watch(task)
        with self._under_way.one(watch):
            try:
                self._under_way.refuse_while_draining()
                await self._answer(caller, request, watch)
            except Refused as refused:
                told: Refused | None = refused
            except Interrupted as interrupted:
                told = interruption(interrupted, self._config)
            except AWAY as error:
                told = database_away(error)
            else:
                told = None
            if told is not None:
                await send_refusal(request.send, told, endpoint.dialect, "", request.id.encode())

    async def _answer(self, caller: Caller, request: Request, watch: Watch) -> None:
        """Raises Refused before anything is sent, Interrupted, and AnswerCut."""
        path, method = request.scope["path"], request.scope["method"]
        match path:
            case "/api/pull":
                await self._pull(caller, request, watch)
            case "/api/create":
                await self._create(request, watch)
            case "/api/copy":
                await self._copy(request)
            case "/api/delete":
                await self._delete(request)
            case _ if method == "HEAD":
                await self._look_for(path.removeprefix(BLOBS), request)
            case _:
                await self._take(path.removeprefix(BLOBS), request)

    async def _pull(self, caller: Caller, request: Request, watch: Watch) -> None:
        asked = decoded(await self._body(request), Pull)
        name = _named(asked.model or asked.name)
        names = await self._read(partial(pulling.names_of, name))
        if names and caller.may_use(names):
            steps = _told("pulling manifest")
        else:
            asker = await self._changes.asker_of(request.headers)
            begin = partial(pulling.begin, name, asker)
            download = await self._change(begin, by_asker(asker, request))
            steps = pulling.steps_of(download, self._reader.run)
        watch.queued = True  # at a stop it ends at once: the download goes on
        await self._tell(steps, request, watch, streams=asked.stream is not False)

    async def _create(self, request: Request, watch: Watch) -> None:
        asker = await self._changes.asker_of(request.headers)
        asked = decoded(await self._body(request), Create)
        create = partial(creating.create, _wanted(asked), asker)
        notes = await self._change(create, by_asker(asker, request))
        steps = _told(*_of_what(asked), *notes, "writing manifest")
        await self._tell(steps, request, watch, streams=asked.stream is not False)

    async def _copy(self, request: Request) -> None:
        asker = await self._changes.asker_of(request.headers)
        asked = decoded(await self._body(request), Copy)
        source, destination = _named(asked.source), _named(asked.destination)
        copy = partial(creating.copy, source, destination, asker)
        await self._change(copy, by_asker(asker, request))
        await _done(request.send, 200, request.id)

    async def _delete(self, request: Request) -> None:
        asker = await self._changes.asker_of(request.headers)
        asked = decoded(await self._body(request), Delete)
        delete = partial(_deleted, _named(asked.model or asked.name), asker)
        await self._change(delete, by_asker(asker, request))
        await _done(request.send, 200, request.id)

    async def _look_for(self, digest: str, request: Request) -> None:
        who = by_asker(await self._changes.asker_of(request.headers), request)
        found = await self._change(partial(uploads.found, digest), who)
        await _done(request.send, 404 if found is None else 200, request.id)

    async def _take(self, digest: str, request: Request) -> None:
        who = by_asker(await self._changes.asker_of(request.headers), request)
        if await self._change(partial(uploads.found, digest), who) is not None:
            await _done(request.send, 200, request.id)
            return
        take = partial(uploads.Upload, digest, most=self._config.max_upload)
        upload = await self._change(take, who)
        try:
            async for data in _parts(request.receive, self._config.body_timeout_seconds):
                await _refusing(asyncio.to_thread(upload.write, data))
            await _refusing(asyncio.to_thread(upload.finish))
        finally:
            await asyncio.to_thread(upload.close)
        await _done(request.send, 201, request.id)

    async def _body(self, request: Request) -> bytes:
        seconds = self._config.body_timeout_seconds
        body = await small_body(request.receive, seconds, MOST_BYTES)
        if not body:
            raise Refused("invalid_request", "missing request body")
        return body

    async def _tell(
        self, steps: AsyncIterator[Object], request: Request, watch: Watch, *, streams: bool
    ) -> None:
        watch.follow(request.receive, request.gone)
        await tell(steps, request.send, request.id.encode(), watch, streams=streams)

    async def _read(self, look: Callable[[], T]) -> T:
        return await self._reader.run(look)

    async def _change(self, change: Callable[[], T], who: Look) -> T:
        """Raises Refused."""
        try:
            return await self._changes.do(change, who)
        except ValidationError as error:
            raise Refused("invalid_request", f"{told_of(error)}.") from error
        except (ImportRefused, NotRegistered) as error:
            raise Refused("invalid_request", str(error)) from error


def _named(name: str | None) -> str:
    """Raises Refused."""
    if not name:
        raise Refused("model_missing", "model is required")
    return name


def _wanted(asked: Create) -> creating.Wanted:
    """Raises Refused for what cannot be done."""
    name = _named(asked.model or asked.name)
    for field, why in _REFUSED_WISHES.items():
        if getattr(asked, field):
            raise Refused("invalid_request", f"`{field}` is not taken: {why}.")
    if not asked.of and not asked.files:
        raise Refused("invalid_request", "neither 'from' or 'files' was specified")
    return creating.Wanted(
        name,
        of=asked.of or "",
        files=asked.files or {},
        parameters=asked.parameters or {},
        system=asked.system or "",
        left_out=tuple(word for field, word in _LEFT_OUT.items() if getattr(asked, field)),
    )


def _of_what(asked: Create) -> list[str]:
    if not asked.files:
        return []
    return ["parsing GGUF", *(f"using existing layer {each}" for each in asked.files.values())]


async def _told(*statuses: str) -> AsyncIterator[Object]:
    for status in statuses:
        yield {"status": status}
    yield SUCCESS


def _deleted(name: str, asker: Asker) -> None:
    """An alias alone goes by its name; a preset with its files where Corral has fetched them; a
    download is cancelled. Raises ManagementRefused or Refused."""
    for shown in spellings(name):
        if Alias.objects.filter(name=shown).exists():
            editing.delete_alias(shown, asker)
            return
        if (preset := Preset.objects.filter(name=shown).first()) is not None:
            _delete_preset(preset, asker)
            return
    kind, target = pulling.target_of(name)
    coming = Download.objects.filter(state__in=Download.UNFINISHED, kind=kind, target=target)
    if (row := coming.first()) is None:
        raise ManagementRefused("not_found", f"model '{name}' not found")
    asking.cancel(row.pk)


def _delete_preset(preset: Preset, asker: Asker) -> None:
    if preset.source in REMOVABLE:
        remove_model(preset.name, asker)
    elif preset.source in (Source.ADMIN, Source.DEMO):
        editing.delete_preset(preset.name, asker)
    else:
        where = CALLED.get(Source(preset.source), Source(preset.source).label)
        raise ManagementRefused(
            "conflict",
            f"model '{preset.name}' would come back: it is from {where}. Delete it there, or make "
            "it unlisted in the admin.",
        )


async def _refusing(doing: Any) -> None:
    """Raises Refused."""
    try:
        await doing
    except ManagementRefused as refused:
        raise Refused(refused.code, refused.message) from refused


async def _parts(receive: Receive, seconds: float) -> AsyncIterator[bytes]:
    """A body in pieces that are worth a thread's while. Raises Refused for one that breaks off."""
    held = bytearray()
    more = True
    while more:
        try:
            async with asyncio.timeout(seconds):
                message = await receive()
        except TimeoutError as error:
            raise Refused("request_timeout", "The rest of the body did not come.") from error
        if message["type"] == "http.disconnect":
            raise Refused("invalid_request", "The body broke off.")
        held += message.get("body", b"")
        more = message.get("more_body", False)
        if len(held) >= AT_ONCE or not more:
            yield bytes(held)
            held.clear()


async def _done(send: Send, status: int, request_id: str) -> None:
    """An answer without a body."""
    headers: list[Header] = [
        (b"content-length", b"0"),
        (b"cache-control", b"no-store"),
        (b"x-request-id", request_id.encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
