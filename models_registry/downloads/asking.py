"""What people and programs ask of downloads: begin, pause, go on, cancel, forget."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from models_registry.downloads import targets, tokens
from models_registry.downloads.choosing import SIDECARS
from models_registry.downloads.jobs import enqueue
from models_registry.downloads.places import state_folder
from models_registry.downloads.planned import Refused
from models_registry.downloads.work import check_host, drop_parts
from models_registry.errors import ManagementRefused
from models_registry.models import Download
from models_registry.naming import LONGEST_NAME

State = Download.State

_CAN_GO_ON = (State.PAUSED, State.FAILED, State.CANCELLED)


def rows() -> QuerySet[Download]:
    """The newest first."""
    return Download.objects.order_by("-id")


def by_id(download: int) -> Download:
    found = Download.objects.filter(pk=download).first()
    if found is None:
        raise ManagementRefused("not_found", f"There is no download {download}.")
    return found


def create(
    kind: str,
    target: str,
    *,
    asked_by: str,
    revision: str = "",
    sidecars: Sequence[str] = (),
    token: str = "",
    load: bool = False,
) -> Download:
    """A row, on the queue once the transaction commits. Raises ManagementRefused: what is asked for
    is nothing that can be fetched, or somebody asked for it already."""
    check(kind, target, revision, sidecars, token)
    check_alone(kind, target, revision)
    row = Download(
        kind=kind,
        target=target,
        revision=revision,
        sidecars=[each for each in SIDECARS if each in sidecars],
        name=targets.parse(kind, target).name[:LONGEST_NAME],
        load=load,
        asked_by=asked_by[:250],
    )
    with transaction.atomic():
        try:
            with transaction.atomic():
                row.save()
        except IntegrityError:  # somebody asked for it between the two statements
            raise _asked_already(row.target) from None
        tokens.keep(row.pk, token)
        enqueue(row.pk)
    return row


def pause(download: int) -> Download:
    """What has come so far is kept."""
    with transaction.atomic():
        row = _locked(download)
        if row.state not in (State.QUEUED, State.RUNNING):
            raise _not_now(row, "paused")
        row.wanted = State.PAUSED
        if row.state == State.QUEUED:
            row.state = State.PAUSED
        row.save(update_fields=["wanted", "state"])
    return row


def resume(download: int, token: str = "") -> Download:
    """A paused one goes on; one that failed or was cancelled is tried again."""
    check_token(token)
    with transaction.atomic():
        row = _locked(download)
        if row.state == State.RUNNING and row.wanted == State.PAUSED:
            row.wanted = State.RUNNING
            row.save(update_fields=["wanted"])
            return row
        if row.state not in _CAN_GO_ON:
            raise _not_now(row, "resumed")
        row.state, row.wanted = State.QUEUED, State.RUNNING
        row.error, row.ended_at = "", None
        try:
            with transaction.atomic():
                row.save(update_fields=["state", "wanted", "error", "ended_at"])
        except IntegrityError:
            raise _asked_already(row.target) from None
        tokens.keep(row.pk, token)
        enqueue(row.pk)
    return row


def cancel(download: int) -> Download:
    """Its unfinished files go. A running one is told, and ends within a second."""
    with transaction.atomic():
        row = _locked(download)
        if row.state in (State.DONE, State.CANCELLED):
            raise _not_now(row, "cancelled")
        row.wanted = State.CANCELLED
        if row.state == State.RUNNING:
            row.save(update_fields=["wanted"])
            return row
        row.state, row.ended_at, row.error = State.CANCELLED, timezone.now(), ""
        row.save(update_fields=["wanted", "state", "ended_at", "error"])
    drop_parts(row)
    tokens.forget(row.pk)
    return row


def forget(download: int) -> None:
    """The row goes, and what is unfinished of it; a finished model stays."""
    with transaction.atomic():
        row = _locked(download)
        if row.state == State.RUNNING:
            raise ManagementRefused(
                "conflict", f"{row.target} is being fetched: cancel it first, then delete it."
            )
        row.delete()
    if row.state != State.DONE:
        drop_parts(row)
    tokens.forget(download)
    (state_folder() / f"{download}.lock").unlink(missing_ok=True)


def unfinished() -> list[Download]:
    """What is not there yet, the oldest first."""
    return list(Download.objects.filter(state__in=Download.UNFINISHED).order_by("pk"))


def coming_names() -> frozenset[str]:
    """Under which what is being fetched may be asked for already, and told how far it is."""
    rows = Download.objects.filter(state__in=Download.UNFINISHED).order_by()
    return frozenset(name for row in rows.values_list("name", "target") for name in row if name)


def unfinished_of(name: str) -> Download | None:
    """The one that will be offered by this name, or was asked for by it."""
    found = Download.objects.filter(state__in=Download.UNFINISHED, name=name).first()
    if found is not None:
        return found
    return Download.objects.filter(state__in=Download.UNFINISHED, target=name).first()


def check(kind: str, target: str, revision: str, sidecars: Sequence[str], token: str) -> None:
    """Raises ManagementRefused `validation_failed`, which names the field."""
    if kind not in Download.Kind.values:
        raise ManagementRefused(
            "validation_failed", f"{kind!r} is none of {', '.join(Download.Kind.values)}.", "kind"
        )
    try:
        targets.parse(kind, target)
    except targets.BadTarget as error:
        raise ManagementRefused("validation_failed", str(error), "target") from error
    try:
        targets.check_revision(kind, revision)
    except targets.BadTarget as error:
        raise ManagementRefused("validation_failed", str(error), "revision") from error
    try:
        check_host(kind, target)
    except Refused as error:
        raise ManagementRefused("validation_failed", str(error), "target") from error
    if unknown := [each for each in sidecars if each not in SIDECARS]:
        raise ManagementRefused(
            "validation_failed", f"{unknown[0]!r} is none of {', '.join(SIDECARS)}.", "sidecars"
        )
    check_token(token)
    if token and kind == Download.Kind.OLLAMA:
        raise ManagementRefused(
            "validation_failed", "Ollama's registry takes no token: leave it out.", "token"
        )


def check_token(token: str) -> None:
    """Raises ManagementRefused for one that no header can carry."""
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise ManagementRefused(
            "validation_failed",
            "A token is of ASCII letters, digits and signs, without blanks: this one is not.",
            "token",
        )


def check_alone(kind: str, target: str, revision: str) -> None:
    """Raises ManagementRefused `conflict` while another download is of the same."""
    others = Download.objects.filter(state__in=Download.UNFINISHED, kind=kind)
    other = others.filter(target=target, revision=revision).first()
    if other is not None:
        raise _asked_already(target, f"download {other.pk} ({other.get_state_display()})")


def _locked(download: int) -> Download:
    by_id(download)
    return Download.objects.select_for_update().get(pk=download)


def _asked_already(target: str, which: str = "another download") -> ManagementRefused:
    return ManagementRefused("conflict", f"{target} was asked for already: {which}.", "target")


def _not_now(row: Download, verb: str) -> ManagementRefused:
    return ManagementRefused(
        "conflict", f"{row.target} cannot be {verb}: it is {row.get_state_display()}."
    )
