"""What forms and lists call our models and their fields, in the reader's language. The models say
it in English, and migrations keep that; the catalogue has the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.utils.translation import gettext_lazy

OURS = ("models_registry", "scheduler", "proxy")


def our_models() -> Iterator[Any]:
    """Those that a page shows: not what the history keeps of them."""
    for label in OURS:
        for model in apps.get_app_config(label).get_models():
            if not model.__name__.startswith("Historical"):
                yield model


def words_of(model: Any) -> Iterator[str]:
    """All that a reader may see of it."""
    yield str(model._meta.verbose_name)
    yield str(model._meta.verbose_name_plural)
    for field in model._meta.get_fields():
        if field.auto_created or not hasattr(field, "verbose_name"):
            continue
        yield str(field.verbose_name)
        yield str(field.help_text)
        yield from (str(label) for _value, label in field.flatchoices)


def app_words() -> Iterator[str]:
    """What the menu calls our apps."""
    yield from (str(apps.get_app_config(label).verbose_name) for label in OURS)


def translate_models() -> None:
    """Once, when all models are there."""
    for label in OURS:
        config = apps.get_app_config(label)
        config.verbose_name = gettext_lazy(str(config.verbose_name))
    for model in our_models():
        options = model._meta
        options.verbose_name = gettext_lazy(options.verbose_name)
        options.verbose_name_plural = gettext_lazy(options.verbose_name_plural)
        for field in options.get_fields():
            if field.auto_created or not hasattr(field, "verbose_name"):
                continue
            field.verbose_name = gettext_lazy(field.verbose_name)
            if field.help_text:
                field.help_text = gettext_lazy(field.help_text)
            if field.choices:
                field.choices = [(value, gettext_lazy(label)) for value, label in field.choices]
