"""The registry's revision: raised with every change, told to the scheduler once it is committed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.signals import m2m_changed, post_delete, post_save

from models_registry import ports
from models_registry.models import (
    Alias,
    Download,
    GlobalPreset,
    Group,
    ModelFile,
    Preset,
    Profile,
    RegistryRevision,
)

log = logging.getLogger(__name__)

_ROW = 1


def registry_revision() -> int:
    """0 before the first change."""
    numbers = RegistryRevision.objects.filter(pk=_ROW).values_list("number", flat=True)
    return next(iter(numbers), 0)


class Planned(Protocol):
    """What somebody would change in the registry; `changes` is false when it is nothing."""

    @property
    def changes(self) -> bool: ...


Made = TypeVar("Made", bound=Planned)

_TRIES = 3


def planned(plan: Callable[[], Made], write: Callable[[Made], None]) -> Made:
    """`plan` reads the registry while others may write it, and takes its time; `write` then writes
    what it made, in one transaction, if nobody has changed the registry meanwhile. Else it is
    planned anew; in the end while the registry is held."""
    for _ in range(_TRIES):
        seen = registry_revision()
        made = plan()
        if not made.changes:
            return made
        with transaction.atomic():
            if _held() == seen:
                write(made)
                return made
    with transaction.atomic():
        _held()
        made = plan()
        write(made)
    return made


def _held() -> int:
    """The revision, which nobody else raises until the transaction ends."""
    rows = RegistryRevision.objects.select_for_update().filter(pk=_ROW)
    return next(iter(rows.values_list("number", flat=True)), 0)


def bump() -> None:
    """Raise the revision in the transaction under way; once it commits, tell the scheduler."""
    with transaction.atomic():
        if not _raised():
            try:
                with transaction.atomic():
                    RegistryRevision.objects.create(pk=_ROW, number=1)
            except IntegrityError:  # another process made the row between the two statements
                _raised()
        _announce_on_commit()


def _raised() -> bool:
    return RegistryRevision.objects.filter(pk=_ROW).update(number=F("number") + 1) == 1


def remember_demo() -> None:
    """From now on `demo_was_registered()`; no new revision, since nothing that runs changed."""
    RegistryRevision.objects.update_or_create(pk=_ROW, defaults={"demo_registered": True})


def demo_was_registered() -> bool:
    return RegistryRevision.objects.filter(pk=_ROW, demo_registered=True).exists()


def _announce_on_commit() -> None:
    connection = transaction.get_connection()
    # A rescan saves hundreds of rows in one transaction: the scheduler is told once.
    if not any(entry[1] is _announce for entry in connection.run_on_commit):
        transaction.on_commit(_announce)


def _announce() -> None:
    revision = registry_revision()
    try:
        ports.scheduler().reload(revision)
    except ports.SchedulerUnavailable as error:
        log.debug("revision %d not announced, the scheduler looks by itself: %s", revision, error)
    except ports.SchedulerRefused as error:
        log.warning("the scheduler refused to reload revision %d: %s", revision, error)


def _changed(**_: Any) -> None:
    bump()


def _fetched(*, created: bool, **_: Any) -> None:
    """A name that is being fetched is taken: the default does not answer for it any more."""
    if created:
        bump()


def connect() -> None:
    """Called once, when Django is ready."""
    for model in (ModelFile, Preset, Alias, Group, Profile, GlobalPreset):
        label = f"models_registry.revision.{model.__name__}"
        post_save.connect(_changed, sender=model, dispatch_uid=label, weak=False)
        post_delete.connect(_changed, sender=model, dispatch_uid=label, weak=False)
    post_save.connect(
        _fetched, sender=Download, dispatch_uid="models_registry.revision.Download", weak=False
    )
    m2m_changed.connect(
        _changed,
        sender=Profile.presets.through,
        dispatch_uid="models_registry.revision.Profile.presets",
        weak=False,
    )
