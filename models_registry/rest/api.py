"""The registry's routes of the management API. What they do is in editing.py and describing.py."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from models_registry import editing, fitting, ports
from models_registry.access import Needs, asker_of
from models_registry.describing import described
from models_registry.models import Alias, Measurement, ModelFile, Preset
from models_registry.ports import FitAnswer
from models_registry.rest.preset_schemas import (
    EffectiveOut,
    FitIn,
    FitOut,
    PresetFilter,
    PresetIn,
    PresetOut,
    PresetPatch,
)
from models_registry.rest.schemas import (
    AliasIn,
    AliasOut,
    AliasPatch,
    AskedOut,
    Cascade,
    CloneIn,
    LoadQuery,
    MeasurementFilter,
    MeasurementOut,
    ModelFileFilter,
    ModelFileIn,
    ModelFileOut,
    ModelFilePatch,
    RescanOut,
    UnloadQuery,
)
from models_registry.shapes import Page, Paged
from models_registry.sources.discovery import Report
from models_registry.tasks import rescan_sources

models = Router(tags=["models"])
rescan = Router(tags=["models"])
presets = Router(tags=["presets"])
fit = Router(tags=["presets"])
aliases = Router(tags=["aliases"])
measurements = Router(tags=["measurements"])

VIEW_FILES, ADD_FILES, CHANGE_FILES, DELETE_FILES = (
    Needs(f"models_registry.{verb}_modelfile") for verb in ("view", "add", "change", "delete")
)
VIEW_PRESETS, ADD_PRESETS, CHANGE_PRESETS, DELETE_PRESETS = (
    Needs(f"models_registry.{verb}_preset") for verb in ("view", "add", "change", "delete")
)
VIEW_ALIASES, ADD_ALIASES, CHANGE_ALIASES, DELETE_ALIASES = (
    Needs(f"models_registry.{verb}_alias") for verb in ("view", "add", "change", "delete")
)
VIEW_MEASUREMENTS = Needs("models_registry.view_measurement")

# Model files ------------------------------------------------------------------------------


@models.get("", auth=VIEW_FILES, response=Paged[ModelFileOut])
def list_model_files(request: HttpRequest, page: Query[ModelFileFilter]) -> dict[str, Any]:
    """The files that presets may run, and what their headers say."""
    return page.of(editing.model_files().filter(page.conditions()))


@models.post("", auth=ADD_FILES, response={201: ModelFileOut})
def add_model_file(request: HttpRequest, body: ModelFileIn) -> Status[ModelFile]:
    """Add a file by its path. It must be there and readable."""
    return Status(201, editing.add_model_file(body.model_dump(), asker_of(request)))


@models.get("/{int:id}", auth=VIEW_FILES, response=ModelFileOut)
def get_model_file(request: HttpRequest, id: int) -> ModelFile:
    return editing.model_file_by_id(id)


@models.patch("/{int:id}", auth=CHANGE_FILES, response=ModelFileOut)
def change_model_file(request: HttpRequest, id: int, body: ModelFilePatch) -> ModelFile:
    """Another path for the same model, another projector or draft model."""
    changes = body.model_dump(exclude_unset=True)
    return editing.change_model_file(id, changes, asker_of(request))


@models.delete("/{int:id}", auth=DELETE_FILES, response={204: None})
def delete_model_file(request: HttpRequest, id: int, query: Query[Cascade]) -> Status[None]:
    """Forget the row; the file itself stays on disk."""
    editing.delete_model_file(id, asker_of(request), cascade=query.cascade)
    return Status(204, None)


@rescan.post("", auth=ADD_FILES, response=RescanOut)
def rescan_now(request: HttpRequest) -> Report:
    """Look into the folders in which models lie, as the settings name them."""
    return rescan_sources()


# What can be asked of a preset: before `{path:name}`, which would take the ending as well ------


@presets.post("/{path:name}/load", auth=CHANGE_PRESETS, response=AskedOut)
def load_preset(request: HttpRequest, name: str, query: Query[LoadQuery]) -> dict[str, str]:
    """Load it now, or with `wait` answer only when it is loaded."""
    loaded = ports.scheduler().load(editing.preset_named(name).name, wait=query.wait)
    return {"preset": name, "state": "loaded" if loaded else "queued"}


@presets.post("/{path:name}/unload", auth=CHANGE_PRESETS, response=AskedOut)
def unload_preset(request: HttpRequest, name: str, query: Query[UnloadQuery]) -> dict[str, str]:
    """Unload it once its answers have ended, or with `force` at once."""
    goes = ports.scheduler().unload(editing.preset_named(name).name, force=query.force)
    return {"preset": name, "state": "unloading" if goes else "unloaded"}


@presets.post("/{path:name}/apply", auth=CHANGE_PRESETS, response=AskedOut)
def apply_preset(request: HttpRequest, name: str) -> dict[str, str]:
    """Stop what still runs with older options; the next request starts it with the new ones."""
    ports.scheduler().apply(editing.preset_named(name).name)
    return {"preset": name, "state": "applying"}


@presets.post("/{path:name}/measure", auth=CHANGE_PRESETS, response=AskedOut)
def measure_preset(request: HttpRequest, name: str) -> dict[str, str]:
    """Measure its memory anew, in the background; see /measurements."""
    ports.scheduler().measure(editing.preset_named(name).name)
    return {"preset": name, "state": "measuring"}


@presets.post("/{path:name}/pin", auth=CHANGE_PRESETS, response=PresetOut)
def pin_preset(request: HttpRequest, name: str) -> Preset:
    """Never evict it for another model."""
    return editing.change_preset(name, {"pinned": True}, asker_of(request))


@presets.post("/{path:name}/unpin", auth=CHANGE_PRESETS, response=PresetOut)
def unpin_preset(request: HttpRequest, name: str) -> Preset:
    return editing.change_preset(name, {"pinned": False}, asker_of(request))


@presets.post("/{path:name}/clone", auth=ADD_PRESETS, response={201: PresetOut})
def clone_preset(request: HttpRequest, name: str, body: CloneIn | None = None) -> Status[Preset]:
    """A new one with all its options and profiles, and without its aliases."""
    new_name = body.name if body is not None else ""
    return Status(201, editing.clone_preset(name, new_name, asker_of(request)))


@presets.get("/{path:name}/effective", auth=VIEW_PRESETS, response=EffectiveOut)
def effective_preset(request: HttpRequest, name: str) -> dict[str, Any]:
    """Every option with its value and where it comes from, and the exact command line."""
    return described(editing.preset_named(name))


@presets.get("/{path:name}/fit", auth=VIEW_PRESETS, response=FitOut)
def fit_preset(request: HttpRequest, name: str) -> FitAnswer:
    """Where it would go now, and on an empty machine: as it is saved."""
    return fitting.fit_of(editing.preset_named(name))


@fit.post("", auth=VIEW_PRESETS, response=FitOut)
def fit_edited(request: HttpRequest, body: FitIn) -> FitAnswer:
    """The same for a preset that is being edited, or for a new one. Nothing is saved."""
    changes = body.model_dump(exclude_unset=True, exclude={"preset", "version"})
    asker = asker_of(request)
    edited = editing.edited_preset(body.preset, changes, asker, version=body.version)
    return fitting.fit_edited(edited)


# Presets ----------------------------------------------------------------------------------


@presets.get("", auth=VIEW_PRESETS, response=Paged[PresetOut])
def list_presets(request: HttpRequest, page: Query[PresetFilter]) -> dict[str, Any]:
    return page.of(editing.presets().filter(page.conditions()))


@presets.post("", auth=ADD_PRESETS, response={201: PresetOut})
def create_preset(request: HttpRequest, body: PresetIn) -> Status[Preset]:
    return Status(201, editing.create_preset(body.model_dump(), asker_of(request)))


@presets.get("/{path:name}", auth=VIEW_PRESETS, response=PresetOut)
def get_preset(request: HttpRequest, name: str) -> Preset:
    return editing.preset_named(name)


@presets.patch("/{path:name}", auth=CHANGE_PRESETS, response=PresetOut)
def change_preset(request: HttpRequest, name: str, body: PresetPatch) -> Preset:
    """Change what is named, and nothing else."""
    changes = body.model_dump(exclude_unset=True, exclude={"version"})
    return editing.change_preset(name, changes, asker_of(request), version=body.version)


@presets.delete("/{path:name}", auth=DELETE_PRESETS, response={204: None})
def delete_preset(request: HttpRequest, name: str) -> Status[None]:
    """Its aliases go with it; instances end, and who waits for them gets `model_removed`."""
    editing.delete_preset(name, asker_of(request))
    return Status(204, None)


# Aliases ----------------------------------------------------------------------------------


@aliases.get("", auth=VIEW_ALIASES, response=Paged[AliasOut])
def list_aliases(request: HttpRequest, page: Query[Page]) -> dict[str, Any]:
    return page.of(editing.aliases())


@aliases.post("", auth=ADD_ALIASES, response={201: AliasOut})
def create_alias(request: HttpRequest, body: AliasIn) -> Status[Alias]:
    alias = editing.create_alias(
        body.name, body.preset, asker_of(request), request_set=body.request_set
    )
    return Status(201, alias)


@aliases.get("/{path:name}", auth=VIEW_ALIASES, response=AliasOut)
def get_alias(request: HttpRequest, name: str) -> Alias:
    return editing.alias_named(name)


@aliases.patch("/{path:name}", auth=CHANGE_ALIASES, response=AliasOut)
def change_alias(request: HttpRequest, name: str, body: AliasPatch) -> Alias:
    changes = body.model_dump(exclude_unset=True)
    return editing.change_alias(name, changes, asker_of(request))


@aliases.delete("/{path:name}", auth=DELETE_ALIASES, response={204: None})
def delete_alias(request: HttpRequest, name: str) -> Status[None]:
    editing.delete_alias(name, asker_of(request))
    return Status(204, None)


# Measurements -----------------------------------------------------------------------------


@measurements.get("", auth=VIEW_MEASUREMENTS, response=Paged[MeasurementOut])
def list_measurements(request: HttpRequest, page: Query[MeasurementFilter]) -> dict[str, Any]:
    """What presets were found to need, the newest first."""
    return page.of(editing.measurements(page.preset, page.state))


@measurements.get("/{int:id}", auth=VIEW_MEASUREMENTS, response=MeasurementOut)
def get_measurement(request: HttpRequest, id: int) -> Measurement:
    return editing.measurement_by_id(id)
