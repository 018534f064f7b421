"""Importing a text of any known form, for pages and programs."""

from __future__ import annotations

from models_registry.access import Asker
from models_registry.audit.actors import Door, through
from models_registry.errors import ImportRefused
from models_registry.imports import llama_swap, modelfile
from models_registry.imports.applying import apply
from models_registry.imports.plan import ImportReport
from models_registry.ini.importing import import_ini

FORMS = {
    "ini": "llama.cpp's INI (--models-preset)",
    "llama_swap": "llama-swap's YAML",
    "modelfile": "an Ollama Modelfile",
}

LONGEST_TEXT = 512 << 10
"""Characters; what is longer is imported by its command on the machine itself."""


def import_text(
    form: str,
    text: str,
    asker: Asker,
    *,
    name: str = "",
    dry_run: bool = False,
    ignore_unknown: bool = False,
    replace: bool = False,
) -> ImportReport:
    """`name` is what a Modelfile's preset is called; the last two count for INI files. With
    `dry_run` the report is exact and nothing is changed. Raises ImportRefused with every faulty
    line, and ManagementRefused for one who may not."""
    if len(text) > LONGEST_TEXT:
        raise ImportRefused(
            f"it is longer than {LONGEST_TEXT} characters: import it by `manage.py` on the machine"
        )
    with through(Door.IMPORT):
        if form == "ini":
            return import_ini(
                text, asker, dry_run=dry_run, ignore_unknown=ignore_unknown, replace=replace
            )
        plan = llama_swap.plan(text) if form == "llama_swap" else modelfile.plan(text, name)
        return apply(plan, asker, dry_run=dry_run)
