"""From the registry's rows to what the scheduler starts: one frozen value per preset."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings

from models_registry.child_environment import chosen_devices, environment_of
from models_registry.engine_path import llama_server
from models_registry.engine_version import Engine, engine_version
from models_registry.engines import LLAMA_SERVER, EngineKind, EngineSetup
from models_registry.errors import EngineMissing, OptionError
from models_registry.groups import NO_GROUP, GroupRules, rules_of
from models_registry.hiding import Candidate, hidden_names
from models_registry.launch_others import memory_fingerprint_of, setup_of, slots_of
from models_registry.model_paths import FilesState, files_state
from models_registry.models import Measurement, Preset, Profile, Source
from models_registry.options.catalogue import Catalogue, engine_catalogue
from models_registry.options.command_line import EffectiveOption, Layer, render
from models_registry.options.inheritance import Layers, global_row
from models_registry.options.memory_options import memory_options
from models_registry.options.policy import Policy, column_policy, min_residency_seconds
from models_registry.options.preset_options import read_lines
from models_registry.request_filters import NO_FILTERS, RequestFilters, filters_of
from models_registry.revision import registry_revision as registry_revision

MEASURING = 5
"""Raised when what is measured changes, so that every preset is measured anew.
5: what a process takes that has been busy."""

CHECKPOINTS = 4
"""Of the context, for each slot (`--ctx-checkpoints`). The engine's own 32 may take gigabytes of
the host for a model with windows or states, in no figure of its own."""

SLEEP = "sleep-idle-seconds"


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How to run a preset, as the registry was at one revision. Times in seconds; None is the
    gateway's own, a negative `keep_alive_seconds` never.

    `engine` says what runs it. `argv` are llama-server's arguments without the program and without
    what the engine adds itself (listening, alias, offline), none for other engines; `env` is what
    the preset adds to its environment; nobody is shown the values. `fingerprint` changes when what
    would be started changes, `filters` do not change it.
    `memory_fingerprint` changes when what it takes in memory may change; it is empty when that
    can be neither measured nor declared. `memory_options` are the options of which it is made.
    `problem` is empty, or says why this preset cannot be started and what to do.
    `unlisted` and `hidden` ones (another preset runs the file of this one, which was found in the
    cache) are left out of lists and answer all the same.
    """

    preset: str
    aliases: tuple[str, ...]
    model_path: str
    argv: tuple[str, ...]
    parallel: int
    fingerprint: str
    env: Mapping[str, str] = field(default_factory=dict)
    engine: EngineSetup = LLAMA_SERVER
    pinned: bool = False
    load_on_startup: bool = False
    stop_timeout_seconds: float | None = None
    priority: str = "normal"  # low, normal or high
    max_wait_seconds: float | None = None
    min_residency_seconds: float | None = None
    keep_alive_seconds: float | None = None
    queue_limit: int | None = None
    connect_timeout_seconds: float | None = None
    first_byte_timeout_seconds: float | None = None
    idle_timeout_seconds: float | None = None
    answer_timeout_seconds: float | None = None
    readiness_probe: bool = False
    kv_saves: bool = True  # what it has read of conversations may be kept in files
    placement: str = "best"  # or now: take what is free
    context_cap: int | None = None  # tokens for each slot, where the context is open
    context_per_slot: int = 8192  # the cap, or the gateway's own
    replicas: int = 1
    problem: str = ""
    memory_fingerprint: str = ""
    memory_options: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()  # by the engine's names, those that it may use
    filters: RequestFilters = NO_FILTERS
    group: GroupRules = NO_GROUP
    files: tuple[str, ...] = ()  # the model's, its projector's, its draft model's
    tags: tuple[str, ...] = ()
    unlisted: bool = False
    hidden: bool = False


def launch_specs() -> list[LaunchSpec]:
    """Every preset that is switched on, by name. One that cannot be started is in it with its
    `problem`: a bad row never hides the good ones."""
    rows = list(Preset.objects.select_related("model_file", "group").prefetch_related("aliases"))
    off = _switched_off()
    reading = _Reading(
        _asked_engine(),
        bases={preset.pk: preset for preset in rows},
        names={preset.name for preset in rows},
    )
    presets = [preset for preset in rows if preset.pk not in off]
    policies = [reading.policy(preset)[0] for preset in presets]
    hidden = hidden_names(map(_candidate, presets, policies))
    specs = [reading.spec(preset) for preset in presets]
    return [replace(spec, hidden=True) if spec.preset in hidden else spec for spec in specs]


def launch_spec_of(preset: Preset) -> LaunchSpec:
    """The same for one preset, as a page needs it, switched on or off; whether it is `hidden` is
    not told."""
    return _reading_of(preset, _asked_engine()).spec(preset)


def effective_options(preset: Preset, catalogue: Catalogue) -> tuple[EffectiveOption, ...]:
    """What would be started now, layer by layer. Raises OptionError, or EngineMissing."""
    asked = _Asked(catalogue, engine_version(llama_server()))
    return _reading_of(preset, asked).started_with(preset)[0]


def effective_policy_of(preset: Preset) -> Policy:
    """What counts for the scheduler, layer by layer, as a page needs it. Raises OptionError."""
    return _reading_of(preset, _Asked(NO_OPTIONS, Engine(""))).layers.policy(preset)


def option_notes(preset: Preset, catalogue: Catalogue) -> list[str]:
    """For people: what in its extra options was written for an older engine, and is translated."""
    return read_lines(preset.extra_options, catalogue).notes


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the engine said of itself, or why it said nothing."""

    catalogue: Catalogue
    engine: Engine
    problem: str = ""


NO_OPTIONS = Catalogue(())
NO_MODEL = FilesState(0, (), "it has no model file")


def _asked_engine() -> _Asked:
    try:
        program = llama_server()
        return _Asked(engine_catalogue(program), engine_version(program))
    except EngineMissing as error:
        return _Asked(NO_OPTIONS, Engine(""), str(error))


def _reading_of(preset: Preset, asked: _Asked) -> _Reading:
    """For one preset, saved or not."""
    bases: dict[int, Preset] = {}
    base = preset.base
    while base is not None and base.pk not in bases:
        bases[base.pk] = base
        base = base.base
    return _Reading(asked, bases, names=set(Preset.objects.values_list("name", flat=True)))


class _Reading:
    """The registry, read once for however many presets."""

    def __init__(self, asked: _Asked, bases: Mapping[int, Preset], names: set[str]) -> None:
        """`bases` are all presets that may be one, by primary key; `names` those of all."""
        self.asked = asked
        self.layers = Layers(asked.catalogue, bases, global_row())
        self._names = names
        self._unreadable = _unreadable_files()
        self._policies: dict[int, tuple[Preset, tuple[Policy, str]]] = {}

    def policy(self, preset: Preset) -> tuple[Policy, str]:
        """(what counts, why it cannot be told in full)."""
        if id(preset) not in self._policies:
            try:
                told = self.layers.policy(preset), ""
            except OptionError as error:
                told = column_policy(preset), f"an option cannot be taken: {error}"
            self._policies[id(preset)] = preset, told
        return self._policies[id(preset)][1]

    def spec(self, preset: Preset) -> LaunchSpec:
        policy, fault = self.policy(preset)
        if preset.engine != EngineKind.LLAMA_SERVER:
            return self._other_spec(preset, policy, fault)
        if problem := self.asked.problem or fault:
            return self._unstartable(preset, policy, problem)
        try:
            options, environment = self.started_with(preset)
            argv = render(options, self.asked.catalogue)
        except OptionError as error:
            return self._unstartable(preset, policy, f"an option cannot be taken: {error}")
        spec = replace(self._unstartable(preset, policy, ""), argv=argv, env=environment)
        return self._startable(preset, spec, options)

    def started_with(self, preset: Preset) -> tuple[tuple[EffectiveOption, ...], dict[str, str]]:
        """(options, what is added to the child's environment). Raises OptionError."""
        variables = environment_of(each.environment for each in self._lineage(preset))
        devices = [described.partition(":")[0] for described in self.asked.engine.devices]
        variables, chosen = chosen_devices(variables, devices)
        options = _with_devices(self.layers.options(preset), chosen)
        if self.policy(preset)[0].pinned:
            # Whoever pins a model wants it there; the engine would put it to sleep by itself.
            options = tuple(each for each in options if each.key != SLEEP)
        bounds = _bounds(options, self.asked.catalogue)
        return tuple(sorted([*options, *bounds], key=lambda each: each.key)), variables

    def _other_spec(self, preset: Preset, policy: Policy, fault: str) -> LaunchSpec:
        """Of another engine than llama-server: its options are not llama-server's."""
        try:
            lineage = self._lineage(preset)
            setup = setup_of(preset)
            environment = environment_of(each.environment for each in lineage)
        except OptionError as error:
            return self._unstartable(preset, policy, f"it cannot be taken: {error}")
        files = files_state(*preset.files) if preset.model_path else FilesState(0, ())
        missing = f"{files.problem}: bring it back, or choose another file"
        problem = fault or (missing if files.problem else "")
        spec = self._unstartable(preset, policy, problem)
        told = (preset.name, *setup.told)
        return replace(
            spec,
            env=environment,
            engine=setup,
            parallel=slots_of(lineage),
            fingerprint=_fingerprint(told, environment, files),
            memory_fingerprint=memory_fingerprint_of(setup, environment, files),
            devices=tuple(device for device in setup.declared if device != "Host"),
        )

    def _lineage(self, preset: Preset) -> tuple[Preset, ...]:
        """The preset with its bases before it, the farthest first."""
        return (*reversed(self.layers.bases(preset)), preset)

    def _startable(
        self, preset: Preset, spec: LaunchSpec, options: tuple[EffectiveOption, ...]
    ) -> LaunchSpec:
        """`spec` with all that hangs on the files and on the options."""
        engine = self.asked.engine
        files = files_state(*preset.files) if preset.model_path else NO_MODEL
        problem = f"{files.problem}: bring it back, or choose another file" if files.problem else ""
        memory = memory_options(options)
        open_context = {} if "ctx-size" in memory else {"per slot": str(spec.context_per_slot)}
        told = {**memory, **open_context}
        fingerprint = "" if files.problem else _memory_fingerprint(told, spec.env, files, engine)
        if not problem and fingerprint in self._unreadable:
            problem = f"its file cannot be read: {self._unreadable[fingerprint]}"
        return replace(
            spec,
            parallel=next(int(option.value) for option in options if option.key == "parallel"),
            fingerprint=_fingerprint(spec.argv, spec.env, files),
            problem=problem,
            memory_fingerprint=fingerprint,
            memory_options=memory,
            devices=devices_of(memory, engine),
        )

    def _unstartable(self, preset: Preset, policy: Policy, problem: str) -> LaunchSpec:
        """All but what is started: what the scheduler goes by, and the child never hears of."""
        return LaunchSpec(
            preset=preset.name,
            aliases=tuple(self._alias_values(preset)),
            model_path=preset.model_path,
            argv=(),
            parallel=1,
            fingerprint=_fingerprint((), {}, FilesState(0, (), problem)),
            pinned=policy.pinned,
            load_on_startup=policy.load_on_startup,
            stop_timeout_seconds=policy.stop_timeout,
            priority=policy.priority,
            max_wait_seconds=policy.max_wait,
            min_residency_seconds=min_residency_seconds(policy),
            keep_alive_seconds=policy.keep_alive,
            queue_limit=policy.queue_limit,
            connect_timeout_seconds=policy.connect_timeout,
            first_byte_timeout_seconds=policy.first_byte_timeout,
            idle_timeout_seconds=policy.idle_timeout,
            answer_timeout_seconds=policy.answer_timeout,
            readiness_probe=policy.readiness_probe,
            kv_saves=policy.kv_saves,
            placement=policy.placement,
            context_cap=policy.context_cap,
            context_per_slot=policy.context_cap or settings.CORRAL_CONTEXT_PER_SLOT,
            replicas=policy.replicas,
            filters=self._filters(preset),
            tags=policy.tags,
            unlisted=policy.unlisted,
            group=rules_of(preset.group),
            files=tuple(filter(None, preset.files)),
            problem=problem,
        )

    def _filters(self, preset: Preset) -> RequestFilters:
        """Also of a preset that cannot be started now: what runs of it goes on answering."""
        try:
            lineage = self._lineage(preset)
        except OptionError:
            lineage = (preset,)
        return filters_of(lineage, self._alias_values(preset))

    def _alias_values(self, preset: Preset) -> dict[str, dict[str, Any]]:
        """Its aliases, with what each sets in the bodies of requests by its name. Forms let no
        alias have a preset's name; rows written past them must not shadow one. A preset that was
        never saved has none."""
        if preset.pk is None:
            return {}
        return {
            each.name: each.request_set
            for each in preset.aliases.all()
            if each.name not in self._names
        }


def _switched_off() -> set[int]:
    """Primary keys of the presets that are in profiles, and in none that is on."""
    on: dict[int, bool] = {}
    members = Profile.presets.through.objects.values_list("preset_id", "profile__active")
    for preset, active in members:
        on[preset] = on.get(preset, False) or active
    return {preset for preset, active in on.items() if not active}


def _candidate(preset: Preset, policy: Policy) -> Candidate:
    return Candidate(
        preset.name,
        (preset.files[0], preset.files[2]),
        found_in_cache=preset.source == Source.CACHE and not preset.file_options,
        hides=policy.dedup_cache_models,
    )


def _bounds(
    options: tuple[EffectiveOption, ...], catalogue: Catalogue
) -> Iterator[EffectiveOption]:
    """What the engine would let grow by gigabytes on the host has a bound that is counted."""
    given = {option.key for option in options}
    for key, value in (
        ("cache-ram", settings.CORRAL_CACHE_RAM),
        ("swa-checkpoints", CHECKPOINTS),
    ):
        if key not in given and catalogue.find(key) is not None:
            yield EffectiveOption(key, str(value), Layer.DEFAULT)


def _with_devices(
    options: tuple[EffectiveOption, ...], devices: str | None
) -> tuple[EffectiveOption, ...]:
    """A preset's option says it above the preset's environment, and that above what is set for all
    presets."""
    if devices is None:
        return options
    if any(option.key == "device" and option.layer > Layer.GLOBAL for option in options):
        return options
    others = (option for option in options if option.key != "device")
    return (*others, EffectiveOption("device", devices, Layer.PRESET, "the preset's environment"))


def devices_of(options: Mapping[str, str], engine: Engine) -> tuple[str, ...]:
    """Those that the options name, else all that the engine has, and one of each RPC server."""
    if "device" in options:
        return tuple(each for each in options["device"].split(",") if each not in ("", "none"))
    endpoints = [each for each in options.get("rpc", "").split(",") if each]
    remote = [f"RPC{number}" for number in range(len(endpoints))]
    own = [described.partition(":")[0] for described in engine.devices]
    return (*remote, *(device for device in own if device not in remote))


def _unreadable_files() -> dict[str, str]:
    """By memory fingerprint, why nothing is to be expected of files: the measure job found it."""
    rows = Measurement.objects.filter(state=Measurement.State.UNREADABLE)
    return dict(rows.values_list("fingerprint", "error"))


def _fingerprint(argv: tuple[str, ...], env: Mapping[str, str], files: FilesState) -> str:
    told = json.dumps([argv, sorted(env.items()), files.stamp, files.problem])
    return hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()[:16]


def _memory_fingerprint(
    options: Mapping[str, str], env: Mapping[str, str], files: FilesState, engine: Engine
) -> str:
    told = json.dumps(
        [
            *(MEASURING, sorted(options.items()), sorted(env.items()), files.stamp),
            *(engine.version, engine.devices),
        ]
    )
    return hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()[:32]
