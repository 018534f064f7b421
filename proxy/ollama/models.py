"""Which models there are, asked of the registry and of the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from django.db.models import BooleanField, Case, Q, Value, When

from models_registry.metadata_shown import metadata_of
from models_registry.models import FileMetadata, Preset
from models_registry.names import Names
from proxy.callers import Caller
from proxy.listing import ModelList, snapshot
from proxy.offered import Offered
from proxy.ollama.shown import VERSION, Known, running, shown, tag
from proxy.ollama.wire import Show
from proxy.queries import DatabaseThread
from scheduler.client import SchedulerClient
from scheduler.protocol import Refused

RECENT_SECONDS = 1.0
"""What a model is able to changes with its preset, and seldom."""
_TEMPLATE = "model_file__metadata__chat_template"
THINKS = ("<think>", "enable_thinking", "reasoning_content")
_LOADED = ("loaded", "draining", "sleeping")
_COPILOT = b"GitHubCopilotChat/"


class OllamaModels:
    """GET /api/tags, GET /api/ps, POST /api/show, and what a model is able to."""

    def __init__(self, models: ModelList) -> None:
        self._models = models
        self._thread = DatabaseThread("ollama")
        self._presets: list[Offered] = []
        self._known: dict[str, Known] = {}
        self._aliases: dict[str, tuple[str, ...]] = {}
        self._names = Names()
        self._looked_at = float("-inf")

    async def close(self) -> None:
        await self._thread.close()

    async def tags(self, caller: Caller) -> dict[str, Any]:
        """The newest first."""
        all_known = await self._all()
        mine = (each for each in self._presets if each.listed and caller.may_use(each.names))
        known = [all_known[each.name] for each in mine]
        known.sort(key=lambda each: (-each.modified, each.name))
        return {"models": [tag(each) for each in known]}

    async def ps(self, scheduler: SchedulerClient, caller: Caller) -> dict[str, Any]:
        """What is loaded, what stays for longest first. Raises Refused."""
        known = await self._all()
        mine = {each.name for each in self._presets if caller.may_use(each.names)}
        live, now = await snapshot(scheduler), datetime.now(UTC)
        told = [
            running(known.get(each.preset, Known(each.preset)), each, now)
            for each in live.instances
            if each.state in _LOADED and (each.preset in mine or not caller.allowed)
        ]
        told.sort(key=lambda each: (each["expires_at"], each["name"]), reverse=True)
        return {"models": told}

    async def show(self, asked: Show, caller: Caller, agent: bytes) -> dict[str, Any]:
        """Raises Refused."""
        name = asked.model or asked.name or ""
        if not name:
            raise Refused("model_missing", "The body must name a model.")
        try:
            preset = await self._models.find(name, caller)
        except Refused as refused:
            if refused.code != "model_not_found":
                raise
            raise Refused("not_found", f"model '{name}' not found") from refused
        known = (await self._all()).get(preset.name, Known(preset.name))
        template = await self._thread.run(lambda: _template_of(known))
        named = name if agent.startswith(_COPILOT) else known.name
        return shown(known, template, named=named)

    async def refuse_what_it_cannot(
        self, model: str, caller: Caller, needs: frozenset[str]
    ) -> None:
        """As the registry was a moment ago; of what is not there for the caller the scheduler says
        so. Raises Refused."""
        own = caller.own_names(model)
        if asyncio.get_running_loop().time() - self._looked_at > RECENT_SECONDS:
            await self._all()
        names = self._names
        meant = names.meant(model, exact=own.exact, wildcard=own.wildcard, default=own.default)
        known = self._known.get(names.preset(meant) or "")
        if known is None or known.capabilities is None:
            return
        if not caller.may_use((known.name, *self._aliases.get(known.name, ()))):
            return
        for need in sorted(needs):
            if need not in known.capabilities:
                raise Refused("invalid_request", f'"{model}" does not support {need}')

    async def _all(self) -> dict[str, Known]:
        """By name; looked up again only when the registry or a file has changed: then the list is
        another one."""
        presets = await self._models.presets()
        if presets is not self._presets:
            rows = await self._thread.run(_rows)
            aliases = {alias: each.name for each in presets for alias in each.aliases}
            self._known = {each.name: _known(each, rows.get(each.name)) for each in presets}
            self._names = Names(self._known, aliases)
            self._aliases = {each.name: each.aliases for each in presets}
            self._presets = presets
        self._looked_at = asyncio.get_running_loop().time()
        return self._known


def version() -> dict[str, str]:
    return {"version": VERSION}


def status() -> dict[str, Any]:
    """Clients offer their users models of Ollama's cloud unless it is said to be off."""
    return {"cloud": {"disabled": True, "source": "config"}}


def _rows() -> dict[str, Preset]:
    """By name, without the chat templates, which are long."""
    takes_tools = Q(**{f"{_TEMPLATE}__contains": "tools"})
    thinks = Q()
    for mark in THINKS:
        thinks |= Q(**{f"{_TEMPLATE}__contains": mark})
    rows = Preset.objects.select_related("model_file__metadata")
    rows = rows.defer(_TEMPLATE).annotate(takes_tools=_said(takes_tools), thinks=_said(thinks))
    return {row.name: row for row in rows}


def _said(condition: Q) -> Case:
    return Case(
        When(condition, then=Value(True)), default=Value(False), output_field=BooleanField()
    )


def _template_of(known: Known) -> str:
    """That of its options, or of its file's header."""
    if (own := _argument(known.arguments, "--chat-template")) is not None:
        return own
    row = FileMetadata.objects.filter(model_file__path=known.path).first()
    return row.chat_template if row is not None else ""


def _known(preset: Offered, row: Preset | None) -> Known:
    arguments: Sequence[str] = preset.status.get("args", ())
    file = row.model_file if row is not None else None
    header = metadata_of(file)
    if row is None or file is None or header is None:
        return Known(
            preset.name,
            path=file.path if file is not None else "",
            size=file.size if file is not None else 0,
            modified=preset.entry["created"],
            arguments=arguments,
        )
    return Known(
        preset.name,
        path=file.path,
        size=file.size,
        modified=preset.entry["created"],
        architecture=header.architecture,
        parameters=header.parameters,
        quantisation=header.quantisation,
        context_length=header.context_length,
        embedding_length=header.embedding_length,
        layers=header.layers,
        tokenizer=header.tokenizer,
        licence=header.licence,
        capabilities=_capabilities(row, header, arguments),
        arguments=arguments,
        defaults=row.request_defaults,
    )


def _capabilities(
    row: Any, header: FileMetadata, arguments: Sequence[str]
) -> tuple[str, ...] | None:
    """None where its template is not known."""
    if "embeddings" in header.output_modalities or "--embeddings" in arguments:
        return ("embedding",)
    if "--chat-template-file" in arguments:
        return None
    own = _argument(arguments, "--chat-template")
    tools = row.takes_tools if own is None else "tools" in own
    thinks = row.thinks if own is None else any(mark in own for mark in THINKS)
    able = {
        "completion": True,
        "tools": tools,
        "thinking": thinks,
        "vision": "image" in header.input_modalities,
        "audio": "audio" in header.input_modalities,
    }
    return tuple(name for name, can in able.items() if can)


def _argument(arguments: Sequence[str], name: str) -> str | None:
    return next((value for each, value in pairwise(arguments) if each == name), None)
