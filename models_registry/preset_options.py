"""A preset's columns and its `key = value` lines as one layer of engine options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from models_registry.catalogue import Catalogue
from models_registry.command_line import known_option, option_value
from models_registry.errors import OptionError
from models_registry.option_values import checked_value

if TYPE_CHECKING:
    from models_registry.models import Preset

COLUMNS: dict[str, str] = {
    "ctx_size": "ctx-size",
    "parallel": "parallel",
    "n_gpu_layers": "n-gpu-layers",
    "threads": "threads",
    "batch_size": "batch-size",
    "ubatch_size": "ubatch-size",
    "cache_type_k": "cache-type-k",
    "cache_type_v": "cache-type-v",
    "flash_attn": "flash-attn",
    "embeddings": "embeddings",
    "sleep_idle": "sleep-idle-seconds",
}
"""Field name to the option's canonical key."""


@dataclass(frozen=True, slots=True)
class Line:
    """One `key = value` of the extra options, where it stands."""

    number: int
    key: str
    value: str


def column_options(preset: Preset) -> dict[str, str]:
    """What the columns set, by canonical key; an unset one (NULL, or empty) is not in it."""
    options: dict[str, str] = {}
    for field, key in COLUMNS.items():
        value = getattr(preset, field)
        if isinstance(value, bool):
            options[key] = "true" if value else "false"
        elif value not in (None, ""):
            options[key] = str(value)
    return options


def column_errors(preset: Preset, catalogue: Catalogue) -> dict[str, OptionError]:
    """By field name, the columns whose values the engine would not take."""
    errors: dict[str, OptionError] = {}
    options = column_options(preset)
    for field, key in COLUMNS.items():
        match = catalogue.find(key)
        if key not in options:
            continue
        try:
            if match is None:
                raise OptionError(key, "this llama-server has no such option: leave it unset")
            checked_value(match.option, options[key])
        except OptionError as error:
            errors[field] = error
    return errors


_EXACT_CACHES = ("f32", "f16", "bf16")


def combination_errors(options: Mapping[str, str]) -> dict[str, OptionError]:
    """What the engine would not take together, by the key of the option to be changed. `options`
    are valid each for itself; what lower layers set is not the preset's to mend."""
    errors: dict[str, OptionError] = {}
    v_type = options.get("cache-type-v", "f16")
    if v_type not in _EXACT_CACHES and options.get("flash-attn") == "off":
        errors["cache-type-v"] = OptionError(
            "cache-type-v",
            f"{v_type} needs flash attention, and flash-attn is off: turn it on, or choose "
            f"{', '.join(_EXACT_CACHES)}",
        )
    batch, step = options.get("batch-size"), options.get("ubatch-size")
    if batch and step and int(step) > int(batch):
        errors["ubatch-size"] = OptionError(
            "ubatch-size", f"{step} is more than batch-size, {batch}: make one of them fit"
        )
    return errors


def extra_lines(text: str) -> Iterator[Line | OptionError]:
    """The lines of `text`, or what is wrong with one.

    Empty lines and lines that begin with # or ; say nothing. Unlike in llama.cpp's INI files a
    value runs to the end of its line, whatever is in it. `--key value`, as it stands on a command
    line, is taken too.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        key, equals, value = _split(line)
        if not key or not equals:
            yield OptionError(
                f"line {number}", f"{line[:40]!r} is not `key = value` (a switch: `key = true`)"
            )
        elif not value:
            yield OptionError(f"line {number}: {key}", "has no value after the =")
        else:
            yield Line(number, key, value)


def _split(line: str) -> tuple[str, str, str]:
    """(key, what stands between, value), without blanks around them."""
    word, blank, rest = line.partition(" ")
    if word.startswith("-") and "=" not in word and blank and not rest.lstrip().startswith("="):
        return word, blank, rest.strip()
    key, equals, value = line.partition("=")
    return key.strip(), equals, value.strip()


def extra_options(
    text: str, catalogue: Catalogue, *, taken: dict[str, str]
) -> tuple[dict[str, str], list[OptionError]]:
    """(options by canonical key, what is wrong line by line). `taken` are set by columns."""
    options: dict[str, str] = {}
    errors: list[OptionError] = []
    for line in extra_lines(text):
        if isinstance(line, OptionError):
            errors.append(line)
            continue
        try:
            key, value = _extra_option(line, catalogue)
            if key in taken:
                raise OptionError(
                    line.key, f"the field for {key} is set as well: clear one of them"
                )
            if key in options:
                raise OptionError(line.key, f"{key} is set in an earlier line already")
            options[key] = value
        except OptionError as error:
            errors.append(OptionError(f"line {line.number}: {error.option}", error.message))
    return options, errors


def _extra_option(line: Line, catalogue: Catalogue) -> tuple[str, str]:
    match = known_option(line.key, catalogue)
    return match.option.key, option_value(match, line.value, line.key)


def preset_layer(preset: Preset, catalogue: Catalogue) -> dict[str, str]:
    """All that the preset sets, by canonical key. Raises the first OptionError."""
    columns = column_options(preset)
    extra, errors = extra_options(preset.extra_options, catalogue, taken=columns)
    if errors:
        raise errors[0]
    return columns | extra
