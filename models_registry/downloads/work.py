"""A download from its beginning, or from where a killed one stood, to a model that is offered.

It runs in the jobs process. A lock that dies with the process says who works on a row, so that a
row is never worked on twice, and is taken up again as soon as nobody does.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from django.conf import settings
from django.db.models import F
from django.utils import timezone

from models_registry import ports
from models_registry.audit.actors import job as audited_job
from models_registry.downloads import hub, ollama, targets, tokens, url
from models_registry.downloads.addresses import Rules, origin_of, rules_of
from models_registry.downloads.offering import offer
from models_registry.downloads.places import (
    free_bytes,
    held,
    models_folder,
    point,
    state_folder,
    write_whole,
)
from models_registry.downloads.planned import Plan, PlannedFile, Refused, from_json
from models_registry.downloads.pulse import Progress, Pulse
from models_registry.downloads.transfer import (
    KEPT_FREE,
    LONGEST_PAUSE_SECONDS,
    PAUSES_SECONDS,
    Reports,
    Source,
    fetch,
)
from models_registry.downloads.wire import Ended, Line, Trouble
from models_registry.models import Download
from models_registry.sources.hf_cache import hub_cache

logger = logging.getLogger(__name__)

State = Download.State

SCHEDULER_TRIES, SCHEDULER_PAUSE_SECONDS = 60, 0.5
"""At a start the scheduler may come later than the end of a short download."""


class Turns:
    """How many downloads run at once in this process."""

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(settings.CORRAL_DOWNLOADS)

    def work(self, download: int) -> None:
        """Does it, and then whichever waits. When all turns are taken it is left to those."""
        waiting: int | None = download
        in_vain: set[int] = set()
        while waiting is not None:
            if not self._free.acquire(blocking=False):
                return
            try:
                if not work(waiting):
                    in_vain.add(waiting)
            finally:
                self._free.release()
            waiting = next_queued(in_vain)


def next_queued(but: Collection[int] = ()) -> int | None:
    """The one that has waited longest."""
    rows = Download.objects.filter(state=State.QUEUED).exclude(pk__in=but).order_by("pk")
    return rows.values_list("pk", flat=True).first()


def unattended() -> list[int]:
    """Rows that a job should look at: those that wait, and those whose job may have died."""
    rows = Download.objects.filter(state__in=(State.QUEUED, State.RUNNING)).order_by("pk")
    return list(rows.values_list("pk", flat=True))


def work(download: int) -> bool:
    """Until it is done, has failed, or somebody wants something else. False, and at once, when
    another job has it, or when there is nothing to do."""
    with held(state_folder() / f"{download}.lock") as mine:
        row = _claimed(download) if mine else None
        if row is None:
            return False
        progress, line = Progress(trouble=""), Line()
        by = f", asked for by {row.asked_by}" if row.asked_by else ""
        with audited_job(f"download {row.pk}{by}"):
            with Pulse(row.pk, progress, line):
                ending = _ending(row, progress, line)
            _settle(row, progress, *ending)
    return True


def _claimed(download: int) -> Download | None:
    rows = Download.objects.filter(pk=download, state__in=(State.QUEUED, State.RUNNING))
    if rows.exclude(wanted=State.RUNNING).exists():
        _obey(download)  # asked for while its job was dead
        return None
    now = timezone.now()
    begun = rows.update(
        state=State.RUNNING,
        started_at=now,
        seen_at=now,
        ended_at=None,
        error="",
        attempts=F("attempts") + 1,
    )
    return Download.objects.get(pk=download) if begun else None


def _ending(row: Download, progress: Progress, line: Line) -> tuple[str, str]:
    """The state that it comes to, and what to say of it. An empty state: as people want it."""
    try:
        plan = progress.plan = _planned(row, progress, line)
        _fetch_all(row, plan, progress, line)
        name, told = offer(plan, row)
        progress.plan = replace(plan, name=name)
        return State.DONE, told
    except Ended:
        return "", ""
    except (Refused, Trouble) as error:
        logger.warning("download of %s: %s", _named(row), error)
        return State.FAILED, str(error)
    except OSError as error:
        logger.warning("download of %s: %s", _named(row), error)
        return State.FAILED, f"{error.strerror or error} ({error.filename or 'no file'})"
    except Exception as error:
        logger.exception("download of %s", _named(row))
        return State.FAILED, f"something broke here; the log says more: {error}"


def _named(row: Download) -> str:
    """For the log: behind the ? of a URL may stand a secret."""
    return row.target.partition("?")[0]


# What there is to fetch -----------------------------------------------------------------------


def _planned(row: Download, progress: Progress, line: Line) -> Plan:
    """Tried as often as a file is. Raises Refused, Trouble or Ended."""
    for pause in (*PAUSES_SECONDS, None):
        try:
            plan = _plan(row, line)
            break
        except Trouble as error:
            if pause is None:
                raise
            seconds = pause if error.retry_after_seconds is None else error.retry_after_seconds
            progress.trouble = f"{error}; tries again in {seconds:.0f} s"
            line.wait(min(seconds, LONGEST_PAUSE_SECONDS))
    progress.trouble = ""
    _forget_other_states(plan, from_json(row.files))
    for number, file in enumerate(plan.files):
        if file.is_there():
            progress.done[number] = file.size or Path(file.at).stat().st_size
        else:
            progress.done[number] = file.part_size()
    _check_room(plan)
    return plan


def _plan(row: Download, line: Line) -> Plan:
    target = targets.parse(row.kind, row.target)
    match target:
        case targets.HubTarget():
            return hub.plan(
                target,
                revision=row.revision,
                commit=row.commit,
                sidecars=row.sidecars,
                token=tokens.for_the_hub(row.pk),
                endpoint=settings.CORRAL_HF_ENDPOINT,
                cache=hub_cache(settings.CORRAL_HF_CACHE, os.environ),
                line=line,
            )
        case targets.UrlTarget():
            return url.plan(
                target, folder=models_folder(), rules=_rules(), secret=_bearer(row), line=line
            )
        case targets.OllamaTarget():
            return ollama.plan(
                target,
                registry=settings.CORRAL_OLLAMA_REGISTRY,
                folder=models_folder(),
                rules=_rules(settings.CORRAL_OLLAMA_REGISTRY),
                redirected=_anywhere_public(settings.CORRAL_OLLAMA_REGISTRY),
                line=line,
            )


def _source(row: Download) -> Source:
    """The hub and Ollama's registry choose themselves where their bytes lie, in public; of a plain
    URL each step must be allowed."""
    if row.kind == Download.Kind.HUB:
        endpoint = settings.CORRAL_HF_ENDPOINT
        token = tokens.for_the_hub(row.pk)
        secret = {"Authorization": f"Bearer {token}"} if token else {}
        return Source(_rules(endpoint), _anywhere_public(endpoint), secret)
    if row.kind == Download.Kind.OLLAMA:
        registry = settings.CORRAL_OLLAMA_REGISTRY
        return Source(_rules(registry), _anywhere_public(registry), {})
    return Source(_rules(), None, _bearer(row))


def check_host(kind: str, target: str) -> None:
    """Raises Refused where the target names a host that downloads may not use: it need not be
    asked for to know that."""
    parsed = targets.parse(kind, target)
    if isinstance(parsed, targets.UrlTarget):
        _rules().check(origin_of(parsed.url))
    elif isinstance(parsed, targets.OllamaTarget) and parsed.host:
        _rules(settings.CORRAL_OLLAMA_REGISTRY).check(origin_of(f"https://{parsed.host}"))


def _rules(*trusted: str) -> Rules:
    return rules_of(settings.CORRAL_DOWNLOAD_HOSTS, trusted=trusted)


def _anywhere_public(*trusted: str) -> Rules:
    return rules_of([*settings.CORRAL_DOWNLOAD_HOSTS, "*"], trusted=trusted)


def _bearer(row: Download) -> dict[str, str]:
    token = tokens.own(row.pk)
    return {"Authorization": f"Bearer {token}"} if token else {}


def _forget_other_states(plan: Plan, before: tuple[PlannedFile, ...]) -> None:
    """A part without a checksum goes on only where the server says that it is the same file."""
    seen = {file.part: (file.validator, file.size) for file in before}
    for file in plan.files:
        same = bool(file.validator) and seen.get(file.part) == (file.validator, file.size)
        if not file.checksum and not same:
            with held(Path(file.lock)) as mine:
                if mine:
                    Path(file.part).unlink(missing_ok=True)


def _check_room(plan: Plan) -> None:
    """Raises Refused, with the figures, before a byte is fetched."""
    needed = sum((file.size or 0) - file.part_size() for file in plan.files if not file.is_there())
    free = free_bytes(Path(plan.folder))
    if needed > 0 and needed + KEPT_FREE > free:
        raise Refused(
            f"there is no room in {plan.folder}: {needed} bytes are still to come, {KEPT_FREE} are "
            f"to stay free, and {free} are free. Make room and retry"
        )


# The bytes -------------------------------------------------------------


def _fetch_all(row: Download, plan: Plan, progress: Progress, line: Line) -> None:
    source = _source(row)
    for number, file in enumerate(plan.files):

        def came(size: int, number: int = number) -> None:
            progress.done[number] = size

        def trouble(text: str) -> None:
            progress.trouble = text

        fetch(file, source, line, Reports(came, trouble))
        came(Path(file.at).stat().st_size)
    for file in plan.files:
        if file.link:
            point(Path(file.link), Path(file.at))
    if plan.reference:
        write_whole(Path(plan.reference), plan.commit)


def _settle(row: Download, progress: Progress, state: str, told: str) -> None:
    if not state:
        Download.objects.filter(pk=row.pk).update(**progress.columns())
        _obey(row.pk)
        return
    Download.objects.filter(pk=row.pk, state=State.RUNNING).update(
        **progress.columns() | {"error": told, "bytes_per_second": None},
        state=state,
        ended_at=timezone.now(),
    )
    if state == State.DONE:
        tokens.forget(row.pk)
        logger.info("download of %s: done, offered as %s", _named(row), progress.columns()["name"])
        if row.load:
            _load(progress.columns()["name"])


def _load(name: str) -> None:
    for left in reversed(range(SCHEDULER_TRIES)):
        try:
            ports.scheduler().load(name)
            return
        except ports.SchedulerUnavailable as error:
            told: Exception = error
            if left:
                time.sleep(SCHEDULER_PAUSE_SECONDS)
        except ports.SchedulerRefused as error:
            told = error
            break
    logger.warning("%s is there, but cannot be loaded now: %s", name, told)


def _obey(download: int) -> None:
    """Nobody works on it, and somebody wants it paused or cancelled; or has changed their mind."""
    row = Download.objects.get(pk=download)
    rows = Download.objects.filter(pk=download, wanted=row.wanted)
    if row.wanted == State.CANCELLED:
        rows.update(state=State.CANCELLED, ended_at=timezone.now(), bytes_per_second=None, error="")
        drop_parts(row)
        tokens.forget(row.pk)
    elif row.wanted == State.PAUSED:
        rows.update(state=State.PAUSED, bytes_per_second=None, error="")
    else:
        rows.update(state=State.QUEUED, bytes_per_second=None)


def drop_parts(row: Download) -> None:
    """The unfinished files, but for those that another download is fetching or still wants."""
    others = Download.objects.filter(state__in=Download.UNFINISHED).exclude(pk=row.pk)
    wanted = {file["part"] for files in others.values_list("files", flat=True) for file in files}
    for file in from_json(row.files):
        if file.part in wanted:
            continue
        with held(Path(file.lock)) as mine, suppress(FileNotFoundError):
            if mine:
                Path(file.part).unlink()
