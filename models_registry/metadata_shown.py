"""What headers say, in words: for the admin's pages."""

from __future__ import annotations

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
        ("cannot be read", row.error),
        ("name", row.name),
        ("architecture", row.architecture),
        ("parameters", parameters_shown(row.parameters)),
        ("quantisation", row.quantisation),
        ("context", f"{row.context_length:,} tokens" if row.context_length else ""),
        ("layers", _number(row.layers)),
        ("embedding", _number(row.embedding_length)),
        ("vocabulary", f"{row.vocabulary:,} tokens" if row.vocabulary else ""),
        ("tokenizer", row.tokenizer),
        ("takes", ", ".join(row.input_modalities)),
        ("gives", ", ".join(row.output_modalities)),
        ("licence", row.licence),
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
