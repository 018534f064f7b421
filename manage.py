#!/usr/bin/env python
"""Starts Django; nothing else."""

from __future__ import annotations

import gc
import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

PAGELESS = (
    *("serve", "runscheduler", "runjobs"),
    *("status", "logs", "queue", "explain", "load", "unload", "pin", "unpin", "download", "chat"),
    *("createkey", "rotatekey", "rescan", "audit", "replay", "simulate"),
    *("export_presets", "import_presets", "import_modelfile", "import_llama_swap"),
)
"""Commands that show no page: what only pages need costs each of them a third of its start."""


LIVING_OBJECTS = 20_000
"""So many more objects before Python looks for garbage: in what a start imports there is none, and
looking again and again took a sixth of it."""


def main() -> None:
    gc.set_threshold(LIVING_OBJECTS, 10, 10)
    os.umask(0o077)  # what we write is for our account: the database holds sessions and digests
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerproj.settings")
    if sys.argv[1:2] == ["runserver"]:
        os.environ.setdefault("CORRAL_DAPHNE", "1")  # Django's own serves no ASGI
    if sys.argv[1:2] and sys.argv[1] in PAGELESS:
        os.environ["CORRAL_PAGELESS"] = "1"
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"manage.py: {error}")


if __name__ == "__main__":
    main()
