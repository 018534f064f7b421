"""From the registry's rows to what the scheduler starts: one frozen value per preset."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from django.conf import settings

from models_registry.catalogue import Catalogue, engine_catalogue
from models_registry.command_line import EffectiveOption, Layer, effective, render
from models_registry.engine_path import llama_server
from models_registry.engine_version import Engine, engine_version
from models_registry.errors import EngineMissing, OptionError
from models_registry.memory_options import memory_options
from models_registry.model_paths import FilesState, files_state
from models_registry.models import Measurement, ModelFile, Preset
from models_registry.policy import min_residency_seconds
from models_registry.preset_options import preset_layer
from models_registry.revision import registry_revision as registry_revision

MEASURING = 4
"""Raised when what is measured changes, so that every preset is measured anew.
4: what RPC servers take while they load."""

CHECKPOINTS = 4
"""Of the context, for each slot (`--ctx-checkpoints`). The engine's own 32 may take gigabytes of
the host for a model with windows or states, in no figure of its own."""

SLEEP = "sleep-idle-seconds"


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How to run a preset, as the registry was at one revision. Times in seconds; None is the
    gateway's own, a negative `keep_alive_seconds` never.

    `argv` are llama-server's arguments without the program and without what the engine adds itself
    (listening, alias, offline). `fingerprint` changes when what would be started changes.
    `memory_fingerprint` changes when what it takes in memory may change; it is empty when that
    cannot be measured. `memory_options` are the options of which it is made.
    `problem` is empty, or says why this preset cannot be started and what to do.
    """

    preset: str
    aliases: tuple[str, ...]
    model_path: str
    argv: tuple[str, ...]
    parallel: int
    fingerprint: str
    env: Mapping[str, str] = field(default_factory=dict)
    pinned: bool = False
    load_on_startup: bool = False
    stop_timeout_seconds: float | None = None
    priority: str = "normal"  # low, normal or high
    max_wait_seconds: float | None = None
    min_residency_seconds: float | None = None
    keep_alive_seconds: float | None = None
    queue_limit: int | None = None
    readiness_probe: bool = False
    placement: str = "best"  # or now: take what is free
    context_cap: int | None = None  # tokens for each slot, where the context is open
    context_per_slot: int = 8192  # the cap, or the gateway's own
    replicas: int = 1
    problem: str = ""
    memory_fingerprint: str = ""
    memory_options: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()  # by the engine's names, those that it may use


def launch_specs() -> list[LaunchSpec]:
    """Every preset, by name. One that cannot be started is in it with its `problem`: a bad row
    never hides the good ones."""
    presets = list(Preset.objects.select_related("model_file").prefetch_related("aliases"))
    names = {preset.name for preset in presets}
    try:
        program = llama_server()
        catalogue, engine = engine_catalogue(program), engine_version(program)
    except EngineMissing as error:
        return [_unstartable(preset, names, str(error)) for preset in presets]
    unreadable = _unreadable_files()
    return [_launch_spec(preset, names, catalogue, engine, unreadable) for preset in presets]


def launch_spec_of(preset: Preset) -> LaunchSpec:
    """The same for one preset, as a page needs it."""
    names = set(Preset.objects.values_list("name", flat=True))
    try:
        program = llama_server()
        catalogue, engine = engine_catalogue(program), engine_version(program)
    except EngineMissing as error:
        return _unstartable(preset, names, str(error))
    return _launch_spec(preset, names, catalogue, engine, _unreadable_files())


def effective_options(preset: Preset, catalogue: Catalogue) -> tuple[EffectiveOption, ...]:
    """What would be started now, layer by layer. Raises OptionError."""
    options = effective(
        environment=os.environ,
        model_file=model_file_layer(preset.model_file),
        preset=preset_layer(preset, catalogue),
        command_line={str(key): str(value) for key, value in settings.CORRAL_COMMAND_LINE.items()},
        catalogue=catalogue,
    )
    # Whoever pins a model wants it there; the engine would put it to sleep by itself.
    kept = (each for each in options if not (preset.pinned and each.key == SLEEP))
    return tuple(sorted([*kept, *_bounds(options, catalogue)], key=lambda each: each.key))


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


def model_file_layer(model_file: ModelFile) -> dict[str, str]:
    layer = {"model": model_file.path}
    if model_file.mmproj:
        layer["mmproj"] = model_file.mmproj
    if model_file.draft:
        layer["model-draft"] = model_file.draft
    return layer


def _launch_spec(
    preset: Preset,
    names: set[str],
    catalogue: Catalogue,
    engine: Engine,
    unreadable: Mapping[str, str],
) -> LaunchSpec:
    try:
        options = effective_options(preset, catalogue)
        argv = render(options, catalogue)
    except OptionError as error:
        return _unstartable(preset, names, f"an option cannot be taken: {error}")
    model_file = preset.model_file
    files = files_state(model_file.path, model_file.mmproj, model_file.draft)
    problem = f"{files.problem}: bring it back, or choose another file" if files.problem else ""
    memory = memory_options(options)
    spec = _unstartable(preset, names, problem)
    open_context = {} if "ctx-size" in memory else {"per slot": str(spec.context_per_slot)}
    told = {**memory, **open_context}
    fingerprint = "" if files.problem else _memory_fingerprint(told, {}, files, engine)
    if not problem and fingerprint in unreadable:
        problem = f"its file cannot be read: {unreadable[fingerprint]}"
    return replace(
        spec,
        argv=argv,
        parallel=next(int(option.value) for option in options if option.key == "parallel"),
        fingerprint=_fingerprint(argv, {}, files),
        problem=problem,
        memory_fingerprint=fingerprint,
        memory_options=memory,
        devices=devices_of(memory, engine),
    )


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


def _unstartable(preset: Preset, names: set[str], problem: str) -> LaunchSpec:
    """All but what is started: what the scheduler goes by, and the child never hears of."""
    return LaunchSpec(
        preset=preset.name,
        aliases=_aliases(preset, names),
        model_path=preset.model_file.path,
        argv=(),
        parallel=1,
        fingerprint=_fingerprint((), {}, FilesState(0, (), problem)),
        pinned=preset.pinned,
        load_on_startup=bool(preset.load_on_startup),
        stop_timeout_seconds=preset.stop_timeout,
        priority=preset.priority,
        max_wait_seconds=preset.max_wait,
        min_residency_seconds=min_residency_seconds(preset),
        keep_alive_seconds=preset.keep_alive,
        queue_limit=preset.queue_limit,
        readiness_probe=preset.readiness_probe,
        placement=preset.placement,
        context_cap=preset.context_cap,
        context_per_slot=preset.context_cap or settings.CORRAL_CONTEXT_PER_SLOT,
        replicas=preset.replicas,
        problem=problem,
    )


def _aliases(preset: Preset, names: set[str]) -> tuple[str, ...]:
    """Forms let no alias have a preset's name; rows written past them must not shadow one. A preset
    that was never saved has none."""
    if preset.pk is None:
        return ()
    return tuple(alias.name for alias in preset.aliases.all() if alias.name not in names)


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
