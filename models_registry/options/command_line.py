"""From layers of options to llama-server's arguments, and back. Pure.

What the admin shows and what is started come from the same two functions: `effective` and
`render`. Arguments are always a list; nothing here is ever read by a shell.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from django.utils.translation import gettext as _

from models_registry.errors import OptionError as OptionError
from models_registry.options.catalogue import Catalogue, Kind, Match, Option
from models_registry.options.old_options import OldOptions
from models_registry.options.option_values import checked_value, switch
from models_registry.options.policy_keys import plain_key
from models_registry.options.refused_options import (
    OPERATORS,
    PRESET_FIELDS,
    refusal,
    refusal_message,
)

DEFAULT_PARALLEL = 4
"""What the engine takes for its own `auto`; said aloud, so that the scheduler knows the slots."""

_OWNED = frozenset({"model", "mmproj", "model-draft"})
"""They come from the model file and from nowhere else."""


class Layer(IntEnum):
    """Where a value comes from, lowest first."""

    DEFAULT = 0
    ENVIRONMENT = 1
    MODEL_FILE = 2
    GLOBAL = 3
    BASE = 4
    PRESET_FILE = 5
    PRESET = 6
    COMMAND_LINE = 7

    @property
    def label(self) -> str:
        return {
            Layer.DEFAULT: _("Corral's default"),
            Layer.ENVIRONMENT: _("environment"),
            Layer.MODEL_FILE: _("model file"),
            Layer.GLOBAL: _("global preset [*]"),
            Layer.BASE: _("base preset"),
            Layer.PRESET_FILE: _("presets file"),
            Layer.PRESET: _("preset"),
            Layer.COMMAND_LINE: _("serve's command line"),
        }[self]


@dataclass(frozen=True, slots=True)
class EffectiveOption:
    """One option as it will be started: its canonical key, its value, who set it. `origin` says it
    more exactly where the layer alone does not: which base."""

    key: str
    value: str
    layer: Layer
    origin: str = ""

    @property
    def where(self) -> str:
        """For people."""
        return self.origin or self.layer.label


@dataclass(frozen=True, slots=True)
class Given:
    """What one layer says, by canonical key, each value checked."""

    layer: Layer
    options: Mapping[str, str]
    origin: str = ""


def effective(
    *,
    environment: Mapping[str, str],
    model_file: Mapping[str, str],
    preset: Mapping[str, str],
    command_line: Mapping[str, str],
    catalogue: Catalogue,
    inherited: Sequence[Given] = (),
) -> tuple[EffectiveOption, ...]:
    """The options of the highest layer that names each, sorted by key.

    `environment` may be the whole environment of the process: only what names an option counts,
    and what is refused (LLAMA_ARG_HOST, say, which is Corral's own) is left out. `inherited` is
    what stands between the model file and the preset's own, lowest first.
    Raises OptionError for what the engine would not take.
    """
    return merged(
        (
            Given(Layer.ENVIRONMENT, environment_layer(environment, catalogue)),
            Given(Layer.MODEL_FILE, checked_layer(model_file, catalogue, allowed=_OWNED)),
            *inherited,
            Given(Layer.PRESET, checked_layer(preset, catalogue)),
            command_line_layer(command_line, catalogue),
        )
    )


def merged(layers: Iterable[Given]) -> tuple[EffectiveOption, ...]:
    """The options of the last layer that names each, sorted by key."""
    found: dict[str, EffectiveOption] = {}
    for given in layers:
        for key, value in given.options.items():
            found[key] = EffectiveOption(key, value, given.layer, given.origin)
    _set_parallel(found)
    return tuple(found[key] for key in sorted(found))


def command_line_layer(options: Mapping[str, str], catalogue: Catalogue) -> Given:
    """What serve's command line sets for all. Raises OptionError."""
    return Given(Layer.COMMAND_LINE, checked_layer(options, catalogue, allowed=OPERATORS))


def environment_layer(environment: Mapping[str, str], catalogue: Catalogue) -> dict[str, str]:
    """What the environment sets, by canonical key."""
    layer: dict[str, str] = {}
    for name, match in catalogue.environment_options():
        if name not in environment or match.option.removed:
            continue
        if refusal(match.option) and match.option.key not in OPERATORS:
            continue
        # llama.cpp: LLAMA_ARG_NO_X counts as set whatever it holds.
        value = "false" if match.negated else environment[name]
        layer[match.option.key] = checked_value(match.option, value, name=name)
    return layer


def checked_layer(
    options: Mapping[str, str], catalogue: Catalogue, *, allowed: Collection[str] = ()
) -> dict[str, str]:
    """By canonical key, whatever the spelling. Raises OptionError."""
    layer: dict[str, str] = {}
    for name, text in options.items():
        key, value = checked_option(name, text, catalogue, allowed=allowed)
        layer[key] = value
    return layer


def checked_option(
    name: str, text: str, catalogue: Catalogue, *, allowed: Collection[str] = ()
) -> tuple[str, str]:
    """(canonical key, the value in its one spelling). Raises OptionError."""
    if not allowed and len(text) <= _SHORT:
        return _plain_option(name, text, catalogue)
    match = known_option(name, catalogue, allowed=allowed)
    return match.option.key, option_value(match, text, name)


_SHORT = 200
"""Characters: what is longer is not remembered."""


@functools.lru_cache(maxsize=8192)
def _plain_option(name: str, text: str, catalogue: Catalogue) -> tuple[str, str]:
    """A thousand presets say much the same, and are read at each look of the scheduler."""
    match = known_option(name, catalogue)
    return match.option.key, option_value(match, text, name)


def _set_parallel(found: dict[str, EffectiveOption]) -> None:
    """The engine's `auto` (unset, or -1) made explicit: four slots on one KV buffer."""
    asked = found.get("parallel")
    if asked is not None and int(asked.value) > 0:
        return
    by = (asked.layer, asked.origin) if asked else (Layer.DEFAULT, "")
    found["parallel"] = EffectiveOption("parallel", str(DEFAULT_PARALLEL), *by)
    found.setdefault("kv-unified", EffectiveOption("kv-unified", "true", *by))


def known_option(
    name: str, catalogue: Catalogue, *, match: Match | None = None, allowed: Collection[str] = ()
) -> Match:
    """What `name` means. Raises OptionError when it is unknown, removed, or refused and not among
    what is `allowed` here."""
    match = match or catalogue.find(name)
    plain = plain_key(name)
    if match is None and plain in PRESET_FIELDS:
        raise OptionError(name, f"set the preset's own field: {PRESET_FIELDS[plain]}")
    if match is None:
        may_be_set = (option for option in catalogue.options if not refusal(option))
        near = catalogue.suggestion(name, may_be_set)
        hint = f": did you mean {near}?" if near else ": see `llama-server --help`"
        raise OptionError(name, f"llama-server has no such option{hint}")
    if match.option.removed:
        raise OptionError(name, " ".join(match.option.help.split()))
    if match.option.key not in allowed and refusal(match.option):
        raise OptionError(name, refusal_message(match.option))
    return match


def option_value(match: Match, text: str, name: str) -> str:
    """The value as it is stored under the option's key: a negated spelling turns it round."""
    value = checked_value(match.option, text, name=name)
    if not match.negated:
        return value
    return "false" if switch(value) else "true"


def render(options: Sequence[EffectiveOption], catalogue: Catalogue) -> tuple[str, ...]:
    """llama-server's arguments, one item for a name and one for a value. `--model` comes first, and
    RPC servers before what names their devices: the engine reads one after the other."""
    argv: list[str] = []
    first = {"model": 0, "rpc": 1}
    for each in sorted(options, key=lambda each: (first.get(each.key, 2), each.key)):
        written = _short_arguments if len(each.value) <= _SHORT else _arguments
        argv += written(each.key, each.value, catalogue)
    return tuple(argv)


def _arguments(key: str, text: str, catalogue: Catalogue) -> tuple[str, ...]:
    option = catalogue.option(key)
    value = checked_value(option, text)
    if option.kind is Kind.FLAG:
        return _flag(option, on=value == "true")
    return _spelling(option.spellings), value


_short_arguments = functools.lru_cache(maxsize=8192)(_arguments)


def _flag(option: Option, *, on: bool) -> tuple[str, ...]:
    if on:
        return (_spelling(option.spellings),)
    return (_spelling(option.negations),) if option.negations else ()


def _spelling(spellings: Sequence[str]) -> str:
    """The last long one, as llama.cpp itself writes presets to a command line."""
    return next((each for each in reversed(spellings) if each.startswith("--")), spellings[-1])


def parse_overlay(tokens: Sequence[str], catalogue: Catalogue) -> dict[str, str]:
    """Options as they stand on a command line, by canonical key; of one given twice, the last.

    Takes every spelling of the engine, `--option=value`, and what older engines called otherwise.
    Raises OptionError.
    """
    options: dict[str, str] = {}
    old = OldOptions(catalogue)
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        match, name, value = _split_token(token, catalogue)
        if old.is_old_switch(name):
            old.take_switch(name, value or "true")
            continue
        if renamed := old.new_name(name):
            match = catalogue.find(renamed[0])
        match = known_option(name, catalogue, match=match, allowed=OPERATORS)
        if value is None:
            if match.option.kind is Kind.FLAG:
                value = "true"
            elif rest:
                value = rest.pop(0)  # also when it begins with a dash, as the engine takes it
            else:
                raise OptionError(name, "needs a value after it")
        options[match.option.key] = option_value(match, value, name)
    if (mode := old.load_mode()) and "load-mode" not in options:
        options["load-mode"] = mode[0]
    return options


def _split_token(token: str, catalogue: Catalogue) -> tuple[Match | None, str, str | None]:
    """(what it means, the name as written, the value that came with it)."""
    if not token.startswith("-") or token in ("-", "--"):
        raise OptionError(token, "is not an option: options begin with - or --")
    match = catalogue.find_token(token)
    if match is None and token.startswith("--") and "=" in token:
        name, _, value = token.partition("=")
        return catalogue.find_token(name), name, value
    return match, token, None
