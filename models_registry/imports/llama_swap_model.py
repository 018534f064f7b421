"""One model of a llama-swap configuration as a preset. Pure but for the engine's catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from models_registry.child_environment import environment_errors, refused
from models_registry.errors import OptionError
from models_registry.imports.macros import Macros, UnknownMacro
from models_registry.imports.options import fields_of
from models_registry.imports.plan import PlannedPreset
from models_registry.imports.server_command import (
    NoServer,
    ServerCommand,
    read_command,
    without_remarks,
)
from models_registry.imports.yaml_tree import is_number
from models_registry.naming import name_problem, valid_name
from models_registry.options.catalogue import Catalogue
from models_registry.options.command_line import DEFAULT_PARALLEL, environment_layer
from models_registry.options.policy import NEVER
from models_registry.request_filters import strip_errors, stripped_names, values_errors

NOT_TAKEN: dict[str, str] = {
    "name": "a preset is shown by the name that clients ask for",
    "description": "a preset has no description",
    "metadata": "a preset has no metadata of its own",
    "capabilities": "they are read from the model file",
    "cmdStop": "Corral ends its children itself, and waits for the stop timeout",
    "checkEndpoint": "a child says by itself when it has loaded; see the readiness probe",
    "proxy": "Corral reaches its children on sockets of its own",
    "useModelName": "llama-server answers whatever name it is asked by",
    "sendLoadingState": "an answer holds nothing but the model's own text",
    "timeouts": "time limits are the gateway's (docs/configuration.md)",
    "compat": "it is about llama-swap alone",
}
"""A model's keys that have no counterpart, and why."""

_TAKEN = frozenset(
    {
        *("cmd", "env", "aliases", "ttl", "unloadTimeout", "unlisted", "filters"),
        *("concurrencyLimit", "macros"),
    }
)


class CannotTake(Exception):
    """The model as a whole; the message says why."""


Say = Callable[[str, str], None]
"""Takes a key's path below the model, with dots, and what is to be said of it."""


def planned_preset(
    id: str,
    model: Mapping[str, Any],
    *,
    macros: Macros,
    catalogue: Catalogue,
    folder: Path | None,
    defaults: Mapping[str, Any],
    say: Say,
) -> PlannedPreset:
    """`folder` is what relative paths start from; without one they cannot be taken. `defaults` are
    what the file's own keys set for all models. Raises CannotTake."""
    try:
        inner = macros.within({"MODEL_ID": id}).within(_mapping(model.get("macros")))
        others = {key: each for key, each in model.items() if key in _TAKEN - {"cmd", "macros"}}
        given = inner.expanded(others)
        # Before macros are put in: one in a remark may stand for several lines.
        written = without_remarks(str(model.get("cmd") or ""))
        command = read_command(inner.text(written), catalogue)
    except (UnknownMacro, NoServer) as error:
        raise CannotTake(str(error)) from error
    if not isinstance(model.get("macros"), dict | None):
        say("macros", "it holds no keys")
    for key in model:
        if key in NOT_TAKEN:
            say(key, NOT_TAKEN[key])
        elif key not in _TAKEN:
            say(key, "llama-swap has no such key, or a newer one")
    return _Taking(id, given, command, catalogue, folder, defaults, say).preset()


class _Taking:
    def __init__(
        self,
        id: str,
        given: Mapping[str, Any],
        command: ServerCommand,
        catalogue: Catalogue,
        folder: Path | None,
        defaults: Mapping[str, Any],
        say: Say,
    ) -> None:
        self._id = id
        self._given = given
        self._command = command
        self._catalogue = catalogue
        self._folder = folder
        self._defaults = defaults
        self._say = say

    def preset(self) -> PlannedPreset:
        for note in self._command.notes:
            self._say("cmd", note)
        environment, options = self._environment()
        options |= self._command.options
        fields, notes = fields_of(options)
        for note in notes:
            self._say("cmd", note)
        fields |= environment
        fields |= self._policy(options)
        aliases = self._filters_into(fields)
        model, like = self._model()
        return PlannedPreset(
            name=self._name(),
            model=model,
            mmproj=self._path("mmproj"),
            draft=self._path("model-draft"),
            like=like,
            fields=fields,
            aliases=aliases,
        )

    def _name(self) -> str:
        if problem := name_problem(self._id):
            name = valid_name(self._id)
            self._say("", f"it is called {name} here: {problem}")
            return name
        return self._id

    def _model(self) -> tuple[str, str]:
        """(path, the preset whose file it is)."""
        files = self._command.files
        if "model" in files:
            return self._path("model"), ""
        if "hf-repo" not in files:
            raise CannotTake("its command names no model file (-m)")
        if "hf-file" in files:
            raise CannotTake(
                f"{files['hf-repo']} is named with a file of its own (-hff): download it, then "
                "import again with -m and its path"
            )
        return "", files["hf-repo"]

    def _path(self, key: str) -> str:
        path = self._command.files.get(key, "")
        if not path or Path(path).is_absolute():
            return path
        if self._folder is None:
            raise CannotTake(f"{path} is a relative path: write it from / on")
        return str(self._folder / path)

    def _environment(self) -> tuple[dict[str, Any], dict[str, str]]:
        """(the column, what its LLAMA_ARG_* say as options)."""
        variables = dict(self._command.environment)
        for entry in self._entries("env"):
            name, equals, value = str(entry).partition("=")
            if equals:
                variables[name.strip()] = value
            else:
                self._say("env", "an entry is not NAME=value")
        options = self._engine_options(variables)
        kept: list[str] = []
        for name, value in variables.items():
            if name.startswith("LLAMA_ARG_"):
                continue
            line = f"{name}={value}"
            if why := refused(name):
                self._say("env", f"{name} is not taken: {why}")
            elif errors := environment_errors(line):
                self._say("env", errors[0].partition(": ")[2] or errors[0])
            else:
                kept.append(line)
        return ({"environment": "\n".join(kept)} if kept else {}), options

    def _engine_options(self, variables: Mapping[str, str]) -> dict[str, str]:
        options: dict[str, str] = {}
        for name, value in variables.items():
            if not name.startswith("LLAMA_ARG_"):
                continue
            try:
                found = environment_layer({name: value}, self._catalogue)
            except OptionError as error:
                self._say("env", f"{name} is not taken: {error.message}")
                continue
            if not found:
                self._say("env", f"{name} is not taken: it is no option that a preset may set")
            options |= found
        return options

    def _policy(self, options: Mapping[str, str]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        ttl = self._number("ttl", -1)
        if ttl < 0:
            ttl = self._defaults.get("globalTTL") or -1
        if ttl >= 0:
            fields["keep_alive"] = float(ttl) if ttl else NEVER
        stop = self._number("unloadTimeout", 0) or self._defaults.get("unloadTimeout") or 0
        if stop > 0:
            fields["stop_timeout"] = float(stop)
        if self._given.get("unlisted") is True:
            fields["unlisted"] = True
        limit = self._number("concurrencyLimit", 0)
        if limit > 0:
            fields |= self._queue_limit(int(limit), options)
        return fields

    def _queue_limit(self, limit: int, options: Mapping[str, str]) -> dict[str, Any]:
        """llama-swap counts those that are answered as well as those that wait."""
        slots = int(options.get("parallel", DEFAULT_PARALLEL))
        slots = slots if slots > 0 else DEFAULT_PARALLEL
        if limit > slots:
            return {"queue_limit": limit - slots}
        self._say(
            "concurrencyLimit",
            f"{limit} is not taken: {slots} are answered at once here, and at least one may wait",
        )
        return {}

    def _number(self, key: str, otherwise: float) -> float:
        value: Any = self._given.get(key, otherwise)
        if not is_number(value):
            self._say(key, "it is not a number")
            return otherwise
        return float(value)

    def _filters_into(self, fields: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The aliases, with what each sets in requests; the preset's own go into `fields`."""
        filters = self._keys("filters")
        strip = filters.get("stripParams") or filters.get("strip_params") or ""
        names = [name for name in stripped_names(str(strip)) if self._is_fine(strip_errors(name))]
        if names:
            fields["request_strip"] = names
        by_id = dict(_mapping(filters.get("setParamsByID")))
        own = self._values(_mapping(by_id.pop(self._id, None)), f"setParamsByID.{self._id}")
        values = self._values(_mapping(filters.get("setParams")), "setParams") | own
        if values:
            fields["request_set"] = values
        for key in filters.keys() - {"stripParams", "strip_params", "setParams", "setParamsByID"}:
            self._say(f"filters.{key}", "there is no such filter here")
        aliases = self._aliases(by_id)
        shared = [name for name, each in aliases.items() if own.keys() - each.keys()]
        if shared:
            self._say(
                f"filters.setParamsByID.{self._id}",
                f"what it sets counts for {', '.join(shared)} as well",
            )
        return aliases

    def _is_fine(self, errors: list[str]) -> bool:
        if errors:
            self._say("filters.stripParams", errors[0])
        return not errors

    def _aliases(self, by_id: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        aliases: dict[str, dict[str, Any]] = {}
        for entry in self._entries("aliases"):
            name = str(_mapping(entry).get("id", entry))
            if _mapping(entry).get("unlisted") is True:
                self._say("aliases", f"{name} is listed with its model all the same")
            if problem := name_problem(name):
                self._say("aliases", f"{name[:70]!r} is not taken: {problem}")
            elif name != self._id:
                aliases[name] = {}
        for name, values in by_id.items():
            where = f"setParamsByID.{name}"
            if problem := name_problem(name):
                self._say(f"filters.{where}", problem)
            else:
                aliases[name] = self._values(_mapping(values), where)
        return aliases

    def _values(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Those that may be set."""
        kept: dict[str, Any] = {}
        for name, value in values.items():
            if errors := values_errors({name: value}):
                self._say(f"filters.{where}", errors[0])
            else:
                kept[name] = value
        return kept

    def _entries(self, key: str) -> list[Any]:
        value = self._given.get(key)
        if value is not None and not isinstance(value, list):
            self._say(key, "it is not a list")
        return value if isinstance(value, list) else []

    def _keys(self, key: str) -> dict[str, Any]:
        value = self._given.get(key)
        if value is not None and not isinstance(value, dict):
            self._say(key, "it holds no keys")
        return _mapping(value)


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
