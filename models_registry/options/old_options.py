"""Options under the names that older engines gave them, in the words of the engine at hand. Pure.

Most presets that people have were written for an engine that is gone. What has one meaning today
is translated, with a note; nothing is where the engine still knows the name itself.
"""

from __future__ import annotations

from models_registry.errors import OptionError
from models_registry.options.catalogue import Catalogue
from models_registry.options.option_values import switch
from models_registry.options.policy_keys import plain_key

_LOADING: dict[str, tuple[str, bool]] = {
    "mmap": ("mmap", True),
    "no-mmap": ("mmap", False),
    "mlock": ("mlock", True),
    "no-mlock": ("mlock", False),
    "direct-io": ("dio", True),
    "no-direct-io": ("dio", False),
    "dio": ("dio", True),
    "ndio": ("dio", False),
}
"""Spelling to (what it is about, what a true value says of it); together they are load-mode."""

_DRAFTED = "the guesses of a draft model are counted so now; for n-grams write spec-ngram-mod-n-max"
_RENAMED: dict[str, tuple[str, str]] = {
    "draft": ("spec-draft-n-max", _DRAFTED),
    "draft-n": ("spec-draft-n-max", _DRAFTED),
    "draft-max": ("spec-draft-n-max", _DRAFTED),
    "draft-min": ("spec-draft-n-min", _DRAFTED.replace("-max", "-min")),
    "draft-n-min": ("spec-draft-n-min", _DRAFTED.replace("-max", "-min")),
}


class OldOptions:
    """The old names of one layer, kept until what they say together is known."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._loading: dict[str, bool] = {}
        self._loading_names: list[str] = []

    def is_old_switch(self, name: str) -> bool:
        """Whether `name` stands for load-mode, and so takes no value on a command line."""
        return plain_key(name) in _LOADING and self._is_gone(name) and self._has("load-mode")

    def new_name(self, name: str) -> tuple[str, str] | None:
        """(today's name, a note), when the engine knows the option by another name only."""
        new = _RENAMED.get(plain_key(name))
        if new is None or not self._is_gone(name) or not self._has(new[0]):
            return None
        return new[0], f"{name} is taken as {new[0]}: {new[1]}"

    def take_switch(self, name: str, value: str) -> None:
        """Of an `is_old_switch`. Raises OptionError for what is neither on nor off."""
        about, when_true = _LOADING[plain_key(name)]
        on = switch(value)
        if on is None:
            raise OptionError(name, f"is a switch: write true or false, not {value[:40]!r}")
        self._loading[about] = on == when_true
        self._loading_names.append(name)

    def load_mode(self) -> tuple[str, str] | None:
        """(the load-mode that the switches together ask for, a note); None where they ask for what
        the engine does anyhow."""
        mode = self._mode()
        if mode is None:
            return None
        names = ", ".join(dict.fromkeys(self._loading_names))
        return mode, f"{names}: taken as load-mode = {mode}, which replaced it"

    def _mode(self) -> str | None:
        mapped, locked = self._loading.get("mmap"), self._loading.get("mlock")
        if self._loading.get("dio"):
            return "dio"
        if locked:
            return "mlock" if mapped is False else "mmap+mlock"
        return None if mapped is None else "mmap" if mapped else "none"

    def _is_gone(self, name: str) -> bool:
        match = self._catalogue.find(name)
        return match is None or match.option.removed

    def _has(self, key: str) -> bool:
        match = self._catalogue.find(key)
        return match is not None and not match.option.removed
