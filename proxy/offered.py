"""The presets that the registry offers, as GET /models tells them: rendered once for each state of
the registry and of the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db.models import Count, Max

from models_registry.engine_path import llama_server
from models_registry.engines import EngineKind
from models_registry.errors import EngineMissing
from models_registry.gguf.file_types import engine_words
from models_registry.ini.preset_text import preset_text
from models_registry.launch import LaunchSpec, launch_specs, registry_revision
from models_registry.metadata_shown import metadata_of
from models_registry.model_paths import FilesState, files_state
from models_registry.models import FileMetadata, Measurement, Preset, Source
from models_registry.options.catalogue import Catalogue, engine_catalogue

_SOURCES = {
    Source.MODELS_DIR: "models_dir",
    Source.CACHE: "cache",
    Source.OLLAMA: "ollama",
    Source.DOWNLOAD: "download",
}
"""All others are a person's, or a file's, and llama.cpp's word for these is `preset`."""
_REMOVABLE = frozenset({Source.CACHE, Source.DOWNLOAD})

_VOCABULARIES = {
    "none": 0, "no_vocab": 0, "llama": 1, "gpt2": 2, "gemma4": 2, "bert": 3, "t5": 4, "rwkv": 5,
    "plamo2": 6,
}  # fmt: skip
"""llama.cpp's numbers for `meta.vocab_type`, by what the header calls the tokenizer."""

TEXT = {"input_modalities": ["text"], "output_modalities": ["text"]}
"""The `architecture` of what is not known otherwise, as in llama.cpp."""


@dataclass(frozen=True, slots=True)
class Offered:
    """One preset. `entry` is what does not depend on what runs, `status` the same of its status,
    `problem` why it cannot be started, or empty. `unloaded` is the whole entry, encoded, for while
    the scheduler has nothing to say of it: a `remote` one, which runs elsewhere, is loaded then."""

    name: str
    aliases: tuple[str, ...]
    listed: bool
    entry: dict[str, Any]
    status: dict[str, Any]
    problem: str
    unloaded: msgspec.Raw
    remote: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All by which somebody may be allowed to use it."""
        return (self.name, *self.aliases)


Files = tuple[str, str, str]
"""Paths of a model, its projector and its draft model; empty where there is none."""


class Offer:
    """Used by one thread."""

    def __init__(self) -> None:
        self._seen: object = None
        self._files: tuple[Files, ...] = ()
        self._presets: list[Offered] = []

    def presets(self) -> list[Offered]:
        """By name. While nothing has changed: three small queries and a look at each file."""
        registry = _registry_state()
        states = _states(self._files)
        if (registry, states) != self._seen:
            rows = _rows()
            self._files = tuple({row.files for row in rows.values()})
            states = _states(self._files)
            self._presets = _offered(rows, dict(zip(self._files, states, strict=True)))
            self._seen = (registry, states)
        return self._presets


def _registry_state() -> object:
    """Another one whenever a preset may look otherwise, the files aside."""
    headers = FileMetadata.objects.aggregate(Max("read_at"), Count("pk"))
    unreadable = Measurement.objects.filter(state=Measurement.State.UNREADABLE)
    try:
        program = llama_server()
        engine: object = (program, program.stat().st_mtime_ns)
    except (EngineMissing, OSError) as error:
        engine = str(error)
    return (
        registry_revision(),
        tuple(headers.values()),
        tuple(unreadable.order_by("pk").values_list("fingerprint", "error")),
        engine,
    )


def _states(files: Sequence[Files]) -> tuple[FilesState, ...]:
    return tuple(files_state(*each) if each[0] else _NO_FILES for each in files)


_NO_FILES = FilesState(0, ())


def _rows() -> dict[str, Preset]:
    """By name, without the chat templates, which are long."""
    rows = Preset.objects.select_related("model_file__metadata")
    wanted = rows.only(
        "name", "source", "file_options", "model_file__path", "model_file__mmproj",
        "model_file__draft", *(f"model_file__metadata__{each}" for each in _METADATA),
    )  # fmt: skip
    return {row.name: row for row in wanted}


_METADATA = (
    "tokenizer", "vocabulary", "context_length", "embedding_length", "parameters", "weights",
    "quantisation", "input_modalities", "output_modalities",
)  # fmt: skip


def _offered(rows: dict[str, Preset], states: dict[Files, FilesState]) -> list[Offered]:
    try:
        catalogue = engine_catalogue(llama_server())
    except EngineMissing:
        catalogue = Catalogue(())
    specs = sorted(launch_specs(), key=lambda spec: spec.preset)
    # A preset may have come or gone between the two queries: the next look shows it.
    return [
        offered(spec, row, states[row.files], catalogue)
        for spec in specs
        if (row := rows.get(spec.preset)) is not None and row.files in states
    ]


def offered(spec: LaunchSpec, row: Preset, state: FilesState, catalogue: Catalogue) -> Offered:
    source = Source(row.source)
    entry: dict[str, Any] = {
        "id": spec.preset,
        "aliases": sorted(spec.aliases),
        "tags": sorted(spec.tags),
        "object": "model",
        "owned_by": "llamacpp",
        "created": _modified(spec.model_path, state),
        "source": "preset" if row.file_options else _SOURCES.get(source, "preset"),
        "can_remove": source in _REMOVABLE,
        **_said(metadata_of(row.model_file)),
    }
    status: dict[str, Any] = {"args": list(spec.argv)}
    if spec.argv:
        status["preset"] = preset_text(spec.preset, spec.argv, catalogue)
    remote = spec.engine.kind == EngineKind.UPSTREAM
    value = "loaded" if remote else "unloaded"
    idle = {"value": value, **status, **problem_told(spec.problem)}
    return Offered(
        name=spec.preset,
        aliases=spec.aliases,
        listed=not (spec.unlisted or spec.hidden),
        entry=entry,
        status=status,
        problem=spec.problem,
        unloaded=msgspec.Raw(msgspec.json.encode({**entry, "status": idle})),
        remote=remote,
    )


def problem_told(problem: str) -> dict[str, Any]:
    """For the status of what is not running; nothing where there is no problem."""
    return {"failed": True, "reason": problem} if problem else {}


def _said(header: FileMetadata | None) -> dict[str, Any]:
    """What the header says, under the names that a loaded child uses: no figure that is not known,
    and text both ways until another modality is."""
    if header is None:
        return {"architecture": TEXT}
    figures = {
        "vocab_type": _VOCABULARIES.get(header.tokenizer),
        "n_vocab": header.vocabulary,
        "n_ctx_train": header.context_length,
        "n_embd": header.embedding_length,
        "n_params": header.parameters,
        "size": header.weights,
        "ftype": engine_words(header.quantisation) or None,
    }
    said: dict[str, Any] = {"architecture": TEXT}
    if header.input_modalities:
        said["architecture"] = {
            "input_modalities": header.input_modalities,
            "output_modalities": header.output_modalities,
        }
    known = {key: value for key, value in figures.items() if value is not None}
    return {**said, "meta": known} if known else said


def _modified(path: str, state: FilesState) -> int:
    """0 for a missing file, which is said in the status."""
    return next((at // 10**9 for seen, _, at in state.stamp if seen == path), 0)
