"""The management API's routes that take and give whole files of presets."""

from __future__ import annotations

from typing import Literal

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import Field, StrictBool

from models_registry.access import Needs, asker_of
from models_registry.editing import presets
from models_registry.errors import EngineMissing, ImportRefused, ManagementRefused
from models_registry.importing import LONGEST_TEXT, import_text
from models_registry.imports.plan import ImportReport
from models_registry.ini.exporting import export_ini
from models_registry.naming import LONGEST_NAME
from models_registry.shapes import Asked, Strict

files = Router(tags=["presets"])


class ImportIn(Strict):
    form: Literal["ini", "llama_swap", "modelfile"]
    text: str = Field(description=f"At most {LONGEST_TEXT} characters.")
    name: str = Field("", max_length=LONGEST_NAME, description="Of a Modelfile's preset.")
    dry_run: StrictBool = Field(False, description="Say what would be done, and do nothing.")
    ignore_unknown: StrictBool = Field(
        False, description="Of an INI: keys that cannot be taken are told, and the rest is taken."
    )
    replace: StrictBool = Field(
        False, description="Of an INI: also change what a preset already says otherwise."
    )


class SkippedOut(Schema):
    name: str
    why: str


class ImportOut(Schema):
    added: list[str]
    changed: list[str]
    skipped: list[SkippedOut] = Field(description="What was not taken, and why.")
    notes: list[str] = Field(description="What was taken otherwise than it stands there.")
    dry_run: bool


class ExportQuery(Asked):
    presets: str = Field("", description="Names with commas between them; all when left out.")


@files.post("/import", auth=Needs("models_registry.add_preset"), response=ImportOut)
def import_presets(request: HttpRequest, body: ImportIn) -> ImportReport:
    """Presets from llama.cpp's INI, llama-swap's YAML or an Ollama Modelfile. A text with faults
    changes nothing; a name that is taken is told, and the rest goes on."""
    try:
        return import_text(**body.model_dump(), asker=asker_of(request))
    except ImportRefused as refused:
        raise ManagementRefused("validation_failed", str(refused), "text") from refused


@files.get("/export", auth=Needs("models_registry.view_preset"), response={200: None})
def export_presets(request: HttpRequest, query: Query[ExportQuery]) -> HttpResponse:
    """An INI file that llama.cpp's router reads too, as text."""
    names = [name.strip() for name in query.presets.split(",") if name.strip()]
    known = set(presets().filter(name__in=names).values_list("name", flat=True))
    if unknown := [name for name in names if name not in known]:
        raise ManagementRefused("model_not_found", f"No preset is called {unknown[0]!r}.")
    try:
        text = export_ini(names or None)
    except EngineMissing as error:
        raise ManagementRefused("preset_invalid", str(error)) from error
    return HttpResponse(text, content_type="text/plain; charset=utf-8")
