"""The keys of remote servers come and go with the rows that refer to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.signals import post_delete, post_save, pre_save

from models_registry import kept_secrets
from models_registry.models import Preset


@contextlib.contextmanager
def kept(secret: str) -> Iterator[str]:
    """Its reference, for a row that is saved in this block; forgotten when that fails."""
    reference = kept_secrets.keep(secret)
    try:
        yield reference
    except BaseException:
        kept_secrets.forget(reference)
        raise


def connect() -> None:
    """Called once, when Django is ready."""
    for signal, receiver in (
        (pre_save, _before_save), (post_save, _after_save), (post_delete, _after_delete),
    ):  # fmt: skip
        signal.connect(receiver, sender=Preset, dispatch_uid=f"upstream_keys{receiver.__name__}")


def _before_save(instance: Any, **_: Any) -> None:
    before = Preset.objects.filter(pk=instance.pk).values_list("upstream_key", flat=True)
    instance._key_before = before.first() if instance.pk is not None else ""


def _after_save(instance: Any, **_: Any) -> None:
    if instance._key_before and instance._key_before != instance.upstream_key:
        transaction.on_commit(partial(_forget_unless_used, instance._key_before))


def _after_delete(instance: Any, **_: Any) -> None:
    if instance.upstream_key:
        transaction.on_commit(partial(_forget_unless_used, instance.upstream_key))


def _forget_unless_used(reference: str) -> None:
    """A clone has the same one."""
    if not Preset.objects.filter(upstream_key=reference).exists():
        kept_secrets.forget(reference)
