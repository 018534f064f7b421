"""POST /api/pull: a download as Ollama tells it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from django.db import Error as DatabaseError

from models_registry.access import Asker
from models_registry.downloads import asking
from models_registry.downloads.choosing import MMPROJ
from models_registry.errors import ManagementRefused
from models_registry.models import Download, Preset
from models_registry.spellings import preset_called
from proxy.ollama.lines import SUCCESS, Object
from scheduler.protocol import Refused

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
LOOKS = 20
"""In a row that may fail."""
REPEAT_SECONDS = 5.0
"""A line comes at least so often: proxies on the way end what is silent."""

_HUBS = ("hf.co/", "huggingface.co/")
_REGISTRY = ("registry.ollama.ai/", "library/")

Kind, State = Download.Kind, Download.State
Do = Callable[[Callable[[], Download | None]], Awaitable[Download | None]]


def names_of(name: str) -> tuple[str, ...]:
    """All names of the preset that is called so; none where there is none."""
    preset = preset_called(name)
    if preset is None:
        return ()
    return (preset.name, *preset.aliases.values_list("name", flat=True))


def begin(name: str, asker: Asker) -> int:
    """The download of it: the one that is under way, else a new one. Raises ManagementRefused."""
    kind, target = target_of(name)
    for _ in range(2):
        row = Download.objects.filter(state__in=Download.UNFINISHED, kind=kind, target=target)
        if (found := row.first()) is not None:
            return (asking.resume(found.pk) if found.state == State.PAUSED else found).pk
        try:
            sidecars = (MMPROJ,) if kind == Kind.HUB else ()
            return asking.create(kind, target, sidecars=sidecars, asked_by=asker.label).pk
        except ManagementRefused as refused:
            if refused.code == "validation_failed":
                told = f"invalid model name {name[:100]!r}: {refused.message}"
                raise ManagementRefused("invalid_request", told) from refused
            conflict = refused  # somebody asked for it between the two statements
    raise conflict


def target_of(name: str) -> tuple[str, str]:
    """(kind, target) of a download."""
    hub = next((hub for hub in _HUBS if name.startswith(hub)), "")
    if hub:
        return Kind.HUB, name.removeprefix(hub).removesuffix(":latest")
    for beginning in _REGISTRY:
        name = name.removeprefix(beginning)
    return Kind.OLLAMA, name


async def steps_of(download: int, do: Do) -> AsyncIterator[Object]:
    """Until it is there. Raises Refused when it comes to nothing. Who stops listening leaves the
    download as it is."""
    loop = asyncio.get_running_loop()
    last: list[Object] = []
    told_at = loop.time()
    while True:
        row = await _looked(download, do)
        state = "" if row is None else row.state
        lines = [{"status": "pulling manifest"}] if row is None else _lines(row)
        late = loop.time() - told_at >= REPEAT_SECONDS
        for line in lines:
            if late or line not in last:
                yield line
                told_at = loop.time()
        last = lines
        if row is None or state not in (State.QUEUED, State.RUNNING):
            break
        await asyncio.sleep(LOOK_SECONDS)
    await do(partial(_check_ended, row))
    for status in ("verifying sha256 digest", "writing manifest"):
        yield {"status": status}
    yield SUCCESS


async def _looked(download: int, do: Do) -> Download | None:
    """Raises Refused when the database fails for some seconds."""
    for left in reversed(range(LOOKS)):
        try:
            return await do(partial(_row, download))
        except DatabaseError as error:
            if not left:
                told = "the registry cannot be read: the download goes on, pull again"
                raise Refused("internal_error", told) from error
            logger.warning("how far download %d is cannot be read: %s", download, error)
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError("the last look returns or raises")


def _row(download: int) -> Download | None:
    return Download.objects.filter(pk=download).first()


def _lines(row: Download) -> list[Object]:
    """Those of its files, as far as they are known."""
    lines: list[Object] = [{"status": "pulling manifest"}]
    for file in row.files:
        digest = file["checksum"] if file["checksum"].startswith("sha256:") else ""
        short = digest.removeprefix("sha256:")[:12] or file["path"].rpartition("/")[2]
        line: Object = {"status": f"pulling {short}", "completed": file["done"]}
        if digest:
            line["digest"] = digest
        if file["size"] is not None:
            line["total"] = file["size"]
        lines.append(line)
    return lines


def _check_ended(row: Download | None) -> None:
    """Raises Refused unless the model is there."""
    if row is None or row.state == State.CANCELLED:
        raise Refused("request_cancelled", "the download was cancelled: pull it again")
    if row.state == State.PAUSED:
        raise Refused("request_cancelled", "the download was paused: pull again to go on")
    if row.state != State.DONE or not Preset.objects.filter(name=row.name).exists():
        raise Refused("upstream_failed", f"pull model: {row.error or 'it is not offered'}")
