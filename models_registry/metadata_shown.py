"""What headers say, in words: for the admin's pages."""

from __future__ import annotations

from django.utils.translation import gettext as _

from models_registry.models import FileMetadata, ModelFile

Shown = list[tuple[str, str]]


def metadata_of(model_file: ModelFile | None) -> FileMetadata | None:
    """None without a file, and until its header has been read. No query after
    `select_related("metadata")`."""
    return getattr(model_file, "metadata", None)


def metadata_shown(model_file: ModelFile | None) -> Shown:
    """(label, text) of all that its header says; empty until it has been read."""
    row = metadata_of(model_file)
    if row is None:
        return []
    shown = [
        (_("cannot be read"), row.error),
        (_("name"), row.name),
        (_("architecture"), row.architecture),
        (_("parameters"), parameters_shown(row.parameters)),
        (_("quantisation"), row.quantisation),
        (
            _("context"),
            _("%(context_length)s tokens") % {"context_length": f"{row.context_length:,}"}
            if row.context_length
            else "",
        ),
        (_("layers"), _number(row.layers)),
        (_("embedding"), _number(row.embedding_length)),
        (
            _("vocabulary"),
            _("%(vocabulary)s tokens") % {"vocabulary": f"{row.vocabulary:,}"}
            if row.vocabulary
            else "",
        ),
        (_("tokenizer"), row.tokenizer),
        (_("takes"), ", ".join(row.input_modalities)),
        (_("gives"), ", ".join(row.output_modalities)),
        (_("licence"), row.licence),
    ]
    return [(label, text) for label, text in shown if text]


def parameters_shown(count: int | None) -> str:
    """As people name models: 7.6 B, 135 M."""
    if not count:
        return ""
    for size, unit in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= size * 0.9995:
            figure = f"{count / size:.1f}" if count < 99.95 * size else f"{count / size:.0f}"
            return f"{figure.removesuffix('.0')} {unit}"
    return str(count)


def _number(value: int | None) -> str:
    return f"{value:,}" if value else ""
