"""The rows that a preset's layers come from: `[*]`, its bases, what the presets file says of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from django.conf import settings

from models_registry.errors import OptionError
from models_registry.options.catalogue import Catalogue
from models_registry.options.command_line import (
    EffectiveOption,
    Given,
    Layer,
    checked_layer,
    command_line_layer,
    environment_layer,
    merged,
)
from models_registry.options.policy import (
    Policy,
    Said,
    base_origin,
    heard,
    in_presets_file,
    said_by_base,
    said_by_global,
    said_by_preset,
)
from models_registry.options.policy_keys import POLICY_KEYS
from models_registry.options.preset_options import preset_layer, read_lines

if TYPE_CHECKING:
    from models_registry.models import GlobalPreset, ModelFile, Preset

DEEPEST = 8
"""Bases, one upon the other: whoever asks for more has lost the thread."""


def bases_of(preset: Preset, base_of: Callable[[Preset], Preset | None]) -> tuple[Preset, ...]:
    """Nearest first. Raises OptionError when they go round in a circle, or are more than
    DEEPEST."""
    found: list[Preset] = []
    seen = [preset]  # by what they are: an import's new ones have no keys yet
    base = base_of(preset)
    while base is not None:
        if base in seen:
            raise OptionError(
                "base", f"with this base {base.name} would stand on itself: choose another, or none"
            )
        if len(found) == DEEPEST:
            raise OptionError("base", f"more than {DEEPEST} presets stand one upon the other")
        found.append(base)
        seen.append(base)
        base = base_of(base)
    return tuple(found)


def stored_bases(preset: Preset) -> tuple[Preset, ...]:
    """By the preset's own relation, a query for each. Raises OptionError."""
    return bases_of(preset, lambda each: each.base)


class Layers:
    """What every layer says, each row read once, however many presets stand on it."""

    def __init__(
        self,
        catalogue: Catalogue,
        presets: Mapping[int, Preset],
        global_preset: GlobalPreset | None,
    ) -> None:
        """`presets` are all those that may be a base, by their primary key."""
        self.catalogue = catalogue
        self._presets = presets
        self._global_preset = global_preset
        self._rows: dict[int, tuple[Given, Given] | OptionError] = {}
        self._chains: dict[tuple[int | None, int], tuple[Preset, ...]] = {}
        self._said: dict[int, tuple[Said, ...]] = {}
        self._said_by_global: tuple[Said, ...] | None = None
        self._common: tuple[Given, tuple[Given, ...], Given] | OptionError | None = None

    def bases(self, preset: Preset) -> tuple[Preset, ...]:
        if preset.base_id is None:
            return ()
        key = preset.pk, preset.base_id
        if key not in self._chains:
            self._chains[key] = bases_of(preset, self._base_of)
        return self._chains[key]

    def policy(self, preset: Preset) -> Policy:
        """Raises OptionError."""
        if self._said_by_global is None:
            self._said_by_global = said_by_global(self._global_preset)
        inherited = self._inherited_policy(preset)
        return heard((*self._said_by_global, *inherited, *said_by_preset(preset)))

    def _inherited_policy(self, preset: Preset) -> list[Said]:
        return [said for base in reversed(self.bases(preset)) for said in self._said_by_base(base)]

    def _said_by_base(self, base: Preset) -> tuple[Said, ...]:
        if base.pk not in self._said:
            self._said[base.pk] = said_by_base(base)
        return self._said[base.pk]

    def options(self, preset: Preset) -> tuple[EffectiveOption, ...]:
        """Raises OptionError for what the engine would not take, naming the layer when it is not
        the preset's own."""
        environment, of_all, command_line = self._common_layers()
        model_file = Given(Layer.MODEL_FILE, model_file_layer(preset.model_file, self.catalogue))
        return merged((environment, model_file, *of_all, *self._own(preset), command_line))

    def own_options(self, preset: Preset) -> dict[str, str]:
        """What counts by itself and its bases, wherever it runs. Raises OptionError."""
        return {key: value for given in self._own(preset) for key, value in given.options.items()}

    def own_policy(self, preset: Preset) -> Policy:
        """The same of its policy. Raises OptionError."""
        return heard((*self._inherited_policy(preset), *said_by_preset(preset)))

    def _own(self, preset: Preset) -> tuple[Given, ...]:
        return (
            *(given for base in reversed(self.bases(preset)) for given in self._as_base(base)),
            Given(Layer.PRESET_FILE, file_layer(preset.file_options, self.catalogue)),
            Given(Layer.PRESET, preset_layer(preset, self.catalogue)),
        )

    def _base_of(self, preset: Preset) -> Preset | None:
        return None if preset.base_id is None else self._presets.get(preset.base_id)

    def _common_layers(self) -> tuple[Given, tuple[Given, ...], Given]:
        if self._common is None:
            try:
                self._common = (
                    Given(Layer.ENVIRONMENT, environment_layer(os.environ, self.catalogue)),
                    self._of_all(),
                    command_line_layer(
                        {str(k): str(v) for k, v in settings.CORRAL_COMMAND_LINE.items()},
                        self.catalogue,
                    ),
                )
            except OptionError as error:
                self._common = error
        if isinstance(self._common, OptionError):
            raise _again(self._common)
        return self._common

    def _of_all(self) -> tuple[Given, ...]:
        row = self._global_preset
        if row is None:
            return ()
        lines = read_lines(row.options, self.catalogue, policy=POLICY_KEYS)
        if lines.errors:
            raise OptionError(f"[*]: {lines.errors[0].option}", lines.errors[0].message)
        return (
            Given(
                Layer.GLOBAL,
                file_layer(row.file_options, self.catalogue),
                in_presets_file(Layer.GLOBAL.label),
            ),
            Given(Layer.GLOBAL, lines.options),
        )

    def _as_base(self, base: Preset) -> tuple[Given, Given]:
        if base.pk not in self._rows:
            self._rows[base.pk] = self._read_base(base)
        found = self._rows[base.pk]
        if isinstance(found, OptionError):
            raise _again(found)
        return found

    def _read_base(self, base: Preset) -> tuple[Given, Given] | OptionError:
        origin = base_origin(base)
        try:
            return (
                Given(
                    Layer.BASE,
                    file_layer(base.file_options, self.catalogue),
                    in_presets_file(origin),
                ),
                Given(Layer.BASE, preset_layer(base, self.catalogue), origin),
            )
        except OptionError as error:
            return OptionError(f"{origin}: {error.option}", error.message)


def _again(error: OptionError) -> OptionError:
    """One that is raised twice grows by its traceback."""
    return OptionError(error.option, error.message)


def global_row() -> GlobalPreset | None:
    from models_registry.models import GlobalPreset  # that module imports this one

    return GlobalPreset.objects.order_by("pk").first()


def file_layer(options: Mapping[str, str], catalogue: Catalogue) -> dict[str, str]:
    """The engine's options among those that a presets file gave. Raises OptionError."""
    return checked_layer(
        {key: value for key, value in options.items() if key not in POLICY_KEYS}, catalogue
    )


DRAFTED = {
    "mtp-": "draft-mtp",
    "eagle3-": "draft-eagle3",
    "dflash-": "draft-dflash",
    "dspark-": "draft-dspark",
}
"""How a draft model guesses, by the beginning of its file's name; by any other, `draft-simple`."""


def model_file_layer(model_file: ModelFile | None, catalogue: Catalogue) -> dict[str, str]:
    """A draft model alone is loaded and not used: the engine is told how it guesses. Without a file
    it says nothing."""
    if model_file is None:
        return {}
    layer = {"model": model_file.path}
    if model_file.mmproj:
        layer["mmproj"] = model_file.mmproj
    if model_file.draft:
        layer["model-draft"] = model_file.draft
        if catalogue.find("spec-type") is not None:
            name = PurePath(model_file.draft).name.lower()
            kinds = (kind for begins, kind in DRAFTED.items() if name.startswith(begins))
            layer["spec-type"] = next(kinds, "draft-simple")
    return layer
