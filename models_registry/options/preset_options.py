"""A preset's columns and its `key = value` lines as one layer of engine options."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from models_registry.errors import OptionError
from models_registry.options.catalogue import Catalogue
from models_registry.options.command_line import checked_layer, checked_option
from models_registry.options.old_options import OldOptions
from models_registry.options.option_values import checked_value
from models_registry.options.policy_keys import LINE_KEYS, policy_key, policy_text
from models_registry.options.refused_options import PRESET_FIELDS

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
                raise OptionError(key, _("this llama-server has no such option: leave it unset"))
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
            _(
                "%(v_type)s needs flash attention, and flash-attn is off: turn it on, or "
                "choose %(join)s"
            )
            % {"v_type": v_type, "join": ", ".join(_EXACT_CACHES)},
        )
    batch, step = options.get("batch-size"), options.get("ubatch-size")
    if batch and step and int(step) > int(batch):
        errors["ubatch-size"] = OptionError(
            "ubatch-size",
            _("%(step)s is more than batch-size, %(batch)s: make one of them fit")
            % {"step": step, "batch": batch},
        )
    slots = options.get("parallel")
    if batch and slots and int(batch) < int(slots):
        errors["batch-size"] = OptionError(
            "batch-size",
            _("%(batch)s is less than parallel, %(slots)s: each slot needs a place in it")
            % {"batch": batch, "slots": slots},
        )
    return errors


_NEWLINE = re.compile(r"\r\n|\n|\r")
_BLANKS = " \t"


def extra_lines(text: str) -> Iterator[Line | OptionError]:
    """The lines of `text`, or what is wrong with one.

    Empty lines and lines that begin with # or ; say nothing. Unlike in llama.cpp's INI files a
    value runs to the end of its line, whatever is in it. `--key value`, as it stands on a command
    line, is taken too.
    """
    for number, line in enumerate(_NEWLINE.split(text), start=1):
        line = line.strip(_BLANKS)
        if not line or line[0] in "#;":
            continue
        key, equals, value = _split(line)
        if not key or not equals:
            yield OptionError(
                _("line %(number)s") % {"number": number},
                _("%(value)s is not `key = value` (a switch: `key = true`)")
                % {"value": f"{line[:40]!r}"},
            )
        elif not value:
            yield OptionError(
                _("line %(number)s: %(key)s") % {"number": number, "key": key},
                _("has no value after the ="),
            )
        else:
            yield Line(number, key, value)


def _split(line: str) -> tuple[str, str, str]:
    """(key, what stands between, value), without blanks around them."""
    word, blank, rest = line.partition(" ")
    if word.startswith("-") and "=" not in word and blank and not rest.lstrip().startswith("="):
        return word, blank, rest.strip(_BLANKS)
    key, equals, value = line.partition("=")
    return key.strip(), equals, value.strip(_BLANKS)


@dataclass(slots=True)
class Lines:
    """What `key = value` lines say: options by canonical key, policy by key, both in the one
    spelling of each value; what is wrong, and what was translated, line by line."""

    options: dict[str, str] = dataclasses.field(default_factory=dict)
    policy: dict[str, str] = dataclasses.field(default_factory=dict)
    errors: list[OptionError] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)


def read_lines(
    text: str,
    catalogue: Catalogue,
    *,
    taken: Container[str] = (),
    policy: Container[str] = LINE_KEYS,
) -> Lines:
    """`taken` are options set by columns, `policy` the policy keys that may stand here. Names that
    older engines had are translated."""
    lines = Lines()
    old = OldOptions(catalogue)
    for line in extra_lines(text):
        if isinstance(line, OptionError):
            lines.errors.append(line)
            continue
        try:
            _take_line(line, lines, old, catalogue, taken, policy)
        except OptionError as error:
            lines.errors.append(
                OptionError(
                    _("line %(number)s: %(option)s")
                    % {"number": line.number, "option": error.option},
                    error.message,
                )
            )
    if mode := old.load_mode():
        if "load-mode" in lines.options:
            lines.errors.append(
                OptionError(
                    "load-mode",
                    _("is set in a line of its own as well (%(value)s)") % {"value": mode[1]},
                )
            )
        else:
            lines.options["load-mode"] = mode[0]
            lines.notes.append(mode[1])
    return lines


def _take_line(
    line: Line,
    lines: Lines,
    old: OldOptions,
    catalogue: Catalogue,
    taken: Container[str],
    policy: Container[str],
) -> None:
    if (known := policy_key(line.key)) and known.key in policy:
        text = policy_text(line.key, line.value)
        if policy is LINE_KEYS and known.has_field_for(text):
            raise OptionError(
                line.key,
                _("set the preset's own field: %(value)s") % {"value": PRESET_FIELDS[known.key]},
            )
        _put(lines.policy, known.key, text, line.key)
        return
    if old.is_old_switch(line.key):
        old.take_switch(line.key, line.value)
        return
    name = line.key
    if renamed := old.new_name(name):
        name = renamed[0]
        lines.notes.append(
            _("line %(number)s: %(value)s") % {"number": line.number, "value": renamed[1]}
        )
    key, value = checked_option(name, line.value, catalogue)
    if key in taken:
        raise OptionError(
            line.key, _("the field for %(key)s is set as well: clear one of them") % {"key": key}
        )
    _put(lines.options, key, value, line.key)


def _put(said: dict[str, str], key: str, value: str, name: str) -> None:
    if key in said:
        raise OptionError(name, _("%(key)s is set in an earlier line already") % {"key": key})
    said[key] = value


def policy_lines(text: str, keys: Container[str] = LINE_KEYS) -> dict[str, str]:
    """Only what is policy, without an engine to ask; what is wrong in other lines is not told."""
    said: dict[str, str] = {}
    for line in extra_lines(text):
        if isinstance(line, Line) and (known := policy_key(line.key)) and known.key in keys:
            said[known.key] = line.value
    return said


def without(text: str, keys: Container[str], catalogue: Catalogue) -> str:
    """`text` less the lines that set one of `keys`, which are canonical; remarks stay."""
    old = OldOptions(catalogue)

    def about(line: str) -> str:
        (read,) = [*extra_lines(line), None][:1]
        if not isinstance(read, Line):
            return ""
        if known := policy_key(read.key):
            return known.key
        if old.is_old_switch(read.key):
            return "load-mode"
        renamed = old.new_name(read.key)
        match = catalogue.find(renamed[0] if renamed else read.key)
        return match.option.key if match else ""

    kept = (line for line in _NEWLINE.split(text) if about(line) not in keys)
    return "\n".join(kept).strip("\n")


def preset_layer(preset: Preset, catalogue: Catalogue) -> dict[str, str]:
    """All that the preset's columns and lines set, by canonical key. Raises the first
    OptionError."""
    columns = column_options(preset)
    checked = checked_layer(columns, catalogue)
    lines = read_lines(preset.extra_options, catalogue, taken=columns)
    if lines.errors:
        raise lines.errors[0]
    return checked | lines.options
