"""llama-swap's configuration as presets, groups and aliases; what cannot be taken is listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from models_registry.engine_path import llama_server
from models_registry.errors import EngineMissing, ImportRefused
from models_registry.imports.llama_swap_model import CannotTake, planned_preset
from models_registry.imports.macros import Macros
from models_registry.imports.plan import Plan, PlannedGroup, PlannedPreset, Skipped
from models_registry.imports.yaml_tree import Tree, is_number, read_yaml
from models_registry.naming import name_problem
from models_registry.options.catalogue import Catalogue, engine_catalogue

NOT_TAKEN: dict[str, str] = {
    "healthCheckTimeout": "a load may take as long as it makes progress: CORRAL_LOAD_STALL",
    "logLevel": "the log is the gateway's own",
    "logTimeFormat": "the log is the gateway's own",
    "logToStdout": "the log is the gateway's own",
    "logRequests": "the log is the gateway's own",
    "store": "what happens is recorded in the database",
    "metricsMaxInMemory": "what happens is recorded in the database",
    "captureBuffer": "the texts of requests are not kept",
    "ui": "the admin is Corral's page",
    "performance": "devices are shown in the admin",
    "startPort": "children listen on sockets of their own, without ports",
    "sendLoadingState": "an answer holds nothing but the model's own text",
    "includeAliasesInList": "aliases are listed with their preset",
    "apiKeys": "make a key for each team or program: manage.py createkey",
    "selectors": "a name stands for one preset: let it have replicas, or move its alias",
    "peers": "models of other servers are not reached through this gateway",
    "upstream": "there is no /upstream here",
    "matrix": "what fits into memory is loaded side by side by itself; for what must not be, make "
    "a group",
}
"""The file's own keys that have no counterpart, and why."""

_TAKEN = frozenset(
    {"models", "groups", "macros", "globalTTL", "unloadTimeout", "hooks", "routing", "profiles"}
)


def plan(
    text: str, *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Plan:
    """What importing this configuration would make. `folder` is what relative paths in it start
    from; `environment` is what `${env.NAME}` in it stands for, nothing unless it is given. Raises
    ImportRefused."""
    tree = read_yaml(text)
    if not isinstance(tree.value, dict) or not isinstance(tree.value.get("models"), dict):
        raise ImportRefused("line 1: a llama-swap configuration has `models:`, and this has none")
    try:
        catalogue = engine_catalogue(llama_server())
    except EngineMissing as error:
        raise ImportRefused(f"its options cannot be checked now: {error}") from error
    return _Planning(tree, catalogue, folder, environment or {}).plan()


_NUMBERS = ("globalTTL", "unloadTimeout")


class _Planning:
    def __init__(
        self,
        tree: Tree,
        catalogue: Catalogue,
        folder: Path | None,
        environment: Mapping[str, str],
    ) -> None:
        self._tree = tree
        self._file: dict[str, Any] = tree.value
        self._catalogue = catalogue
        self._folder = folder
        self._environment = environment
        self._notes: list[tuple[int, str]] = []
        self._skipped: list[Skipped] = []

    def plan(self) -> Plan:
        self._say_what_is_not_taken()
        macros = Macros(self._environment).within(_mapping(self._file.get("macros")))
        models = _mapping(self._file["models"])
        found = {
            id: preset
            for id, model in models.items()
            if (preset := self._preset(id, model, macros)) is not None
        }
        groups = list(self._groups(found))
        self._preload(found)
        self._prioritise(found)
        notes = [f"line {line}: {text}" for line, text in sorted(self._notes)]
        return Plan(tuple(found.values()), tuple(groups), tuple(self._skipped), tuple(notes))

    def _say(self, text: str, *path: str) -> None:
        self._notes.append((self._tree.line(*path), text))

    def _say_what_is_not_taken(self) -> None:
        for key in self._file:
            if key in NOT_TAKEN:
                self._say(f"{key} is not taken: {NOT_TAKEN[key]}", key)
            elif key not in _TAKEN:
                self._say(f"{key} is not taken: it is no key of llama-swap's known here", key)
            elif not _is_of_its_kind(key, self._file[key]):
                why = "it is not a number" if key in _NUMBERS else "it holds no keys"
                self._say(f"{key} is not taken: {why}", key)
        for id in _mapping(self._file.get("profiles")):
            self._say(
                f"profiles.{id} is not taken: it leads names to other models; a profile here "
                "switches presets on and off",
                *("profiles", id),
            )

    def _preset(self, id: str, model: object, macros: Macros) -> PlannedPreset | None:
        def say(key: str, text: str) -> None:
            where = ".".join(each for each in ("models", id, key) if each)
            self._say(f"{where}: {text}", "models", id, *filter(None, key.split(".")))

        try:
            if not isinstance(model, dict):
                raise CannotTake("it holds no keys")
            return planned_preset(
                id,
                model,
                macros=macros,
                catalogue=self._catalogue,
                folder=self._folder,
                defaults={key: self._seconds(key) for key in _NUMBERS},
                say=say,
            )
        except CannotTake as error:
            line = self._tree.line("models", id)
            self._skipped.append(Skipped(id, f"{error} (line {line})"))
            return None

    def _seconds(self, key: str) -> float:
        value = self._file.get(key)
        return value or 0 if _is_of_its_kind(key, value) else 0

    def _groups(self, presets: dict[str, PlannedPreset]) -> Iterator[PlannedGroup]:
        """Those that have members among `presets`, which are put into them."""
        for path, name, group in self._written_groups():
            if problem := name_problem(name):
                self._say(f"groups.{name} is not taken: {problem}", *path)
                continue
            members = group.get("members")
            known = [each for each in map(str, _list(members)) if each in presets]
            for missing in set(map(str, _list(members))) - set(known):
                self._say(f"groups.{name}: {missing} is not among what is imported", *path)
            for member in known:
                if before := presets[member].group:
                    words = f"{member} leaves {before} for it: a preset is in one group at most"
                    self._say(f"groups.{name}: {words}", *path)
                presets[member] = replace(presets[member], group=name)
            if known:
                yield PlannedGroup(
                    name,
                    one_at_a_time=group.get("swap", True) is not False,
                    exclusive=group.get("exclusive", True) is not False,
                    persistent=group.get("persistent", False) is True,
                )

    def _written_groups(self) -> Iterator[tuple[tuple[str, ...], str, dict[str, Any]]]:
        routing = _mapping(self._file.get("routing"))
        router = _mapping(routing.get("router"))
        settings = _mapping(router.get("settings"))
        if router.get("use") == "matrix" or "matrix" in settings:
            self._say(f"routing.router: {NOT_TAKEN['matrix']}", "routing", "router")
        for above, groups in (
            (("groups",), self._file.get("groups")),
            (("routing", "router", "settings", "groups"), settings.get("groups")),
        ):
            for name, group in _mapping(groups).items():
                yield (*above, name), name, _mapping(group)

    def _preload(self, presets: dict[str, PlannedPreset]) -> None:
        hooks = _mapping(self._file.get("hooks"))
        for name in map(str, _list(_mapping(hooks.get("on_startup")).get("preload"))):
            for id in self._meant(name, presets, "hooks", "on_startup", "preload"):
                fields = {**presets[id].fields, "load_on_startup": True}
                presets[id] = replace(presets[id], fields=fields)

    def _prioritise(self, presets: dict[str, PlannedPreset]) -> None:
        path = ("routing", "scheduler", "settings", "fifo", "priority")
        found: Any = self._file
        for key in path:
            found = _mapping(found).get(key)
        for name, number in _mapping(found).items():
            if isinstance(number, bool) or not isinstance(number, int) or number == 0:
                continue
            word = "high" if number > 0 else "low"
            for id in self._meant(name, presets, *path, name):
                fields = {**presets[id].fields, "priority": word}
                presets[id] = replace(presets[id], fields=fields)
                self._say(f"models.{id}: its priority {number} is taken as {word}", *path, name)

    def _meant(self, name: str, presets: Mapping[str, PlannedPreset], *path: str) -> Iterator[str]:
        """The id that `name` is, or is an alias of."""
        found = [id for id, each in presets.items() if name in (id, *each.aliases)]
        if not found:
            self._say(f"{name} is not among what is imported", *path)
        yield from found[:1]


def _is_of_its_kind(key: str, value: object) -> bool:
    """Whether a key that is taken holds what it is to hold; nothing at all is fine, too."""
    return value is None or (is_number(value) if key in _NUMBERS else isinstance(value, dict))


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
