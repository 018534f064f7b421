"""The registry's presets as an INI file that llama.cpp's own router reads too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from models_registry.engine_path import llama_server
from models_registry.engines import EngineKind
from models_registry.errors import OptionError
from models_registry.ini.text import GLOBAL, key_lines
from models_registry.models import Preset
from models_registry.options.catalogue import engine_catalogue
from models_registry.options.inheritance import Layers, global_row, model_file_layer
from models_registry.options.policy import Policy
from models_registry.options.policy_keys import POLICY_KEYS, policy_text, policy_text_of
from models_registry.options.preset_options import read_lines

LLAMA_CPP_KNOWS = frozenset({"load-on-startup", "stop-timeout", "dedup-cache-models", "tags"})
"""Of the keys of policy; the others are written as comments that Corral alone reads."""

_HEAD = """\
# Presets of Corral, in the form of llama.cpp's --models-preset files. Lines that begin with
# `# corral:` are Corral's own, and comments to llama.cpp. What a preset has from its base stands in
# its own section. Environment variables, request filters and groups cannot be written here: a
# section whose preset has some says so at its end.
"""

_NOT_CARRIED = {
    "environment": "environment variables",
    "request_strip": "request filters",
    "request_set": "request filters",
    "request_defaults": "request filters",
    "group_id": "its group",
    "command_line": "its command line",
    "declared_memory": "its declared memory",
    "upstream_url": "its remote server",
}


def export_ini(names: Iterable[str] | None = None) -> str:
    """Those presets, or all; with them what counts for every preset. One whose options cannot be
    read is a comment that says why. Raises EngineMissing."""
    catalogue = engine_catalogue(llama_server())
    rows = list(Preset.objects.select_related("model_file").prefetch_related("aliases"))
    wanted = None if names is None else set(names)
    layers = Layers(catalogue, {preset.pk: preset for preset in rows}, global_row())
    sections = [_HEAD, *_global(layers)]
    for preset in rows:
        if wanted is None or preset.name in wanted:
            sections.append("\n".join(_section(preset, layers)) + "\n")
    return "\n".join(sections)


def _global(layers: Layers) -> Iterator[str]:
    row = global_row()
    if row is None:
        return
    lines = read_lines(row.options, layers.catalogue, policy=POLICY_KEYS)
    words = {**row.file_options, **lines.options, **lines.policy}
    if words:
        yield "\n".join([f"[{GLOBAL}]", *_words(words)]) + "\n"


def name_in_llama_cpp(name: str) -> str:
    """Of what stands behind the last colon its router reads the last word, in capitals."""
    head, colon, tag = name.rpartition(":")
    return f"{head}{colon}{re.split('[.-]', tag)[-1].upper()}" if colon else name


def _section(preset: Preset, layers: Layers) -> Iterator[str]:
    if (other := name_in_llama_cpp(preset.name)) != preset.name:
        yield f"# llama.cpp reads this name as {other}"
    yield f"[{preset.name}]"
    try:
        options = layers.own_options(preset)
        policy = layers.own_policy(preset)
    except OptionError as error:
        yield f"# its options are left out, they cannot be read: {error}"
        options, policy = {}, Policy()
    files = model_file_layer(preset.model_file, layers.catalogue)
    for key in ("model", "mmproj", "model-draft"):
        if key in files:
            yield from key_lines(key, files.pop(key))
    aliases = sorted(alias.name for alias in preset.aliases.all())
    if aliases:
        yield from key_lines("alias", ",".join(aliases))
    if patterns := [name for name in aliases if name.endswith("*")]:
        yield f"# llama.cpp takes {', '.join(patterns)} for a name, Corral for all that begin so"
    yield from _words(files | options | _policy_words(policy))
    if preset.engine != EngineKind.LLAMA_SERVER:
        yield f"# llama.cpp cannot run it: its engine is {preset.engine}"
    lost = {word for field, word in _NOT_CARRIED.items() if getattr(preset, field)}
    if lost:
        yield f"# not in this file: {', '.join(sorted(lost))}"


def _policy_words(policy: Policy) -> dict[str, str]:
    return {
        key.key: policy_text_of(key, getattr(policy, key.field))
        for key in POLICY_KEYS.values()
        if key.field in policy.said_by
    }


def _words(words: dict[str, str]) -> Iterator[str]:
    for key, text in sorted(words.items()):
        if key in POLICY_KEYS:
            text = policy_text(key, text)
        yield from key_lines(key, text, corral=not _is_for_llama_cpp(key, text))


def _is_for_llama_cpp(key: str, text: str) -> bool:
    """It takes whole seconds only."""
    if key == "stop-timeout":
        return text.isdigit()
    return key not in POLICY_KEYS or key in LLAMA_CPP_KNOWS
