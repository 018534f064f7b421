"""A scheduler as a process of its own, with the presets of its command line:

scheduler_program.py VAR NAME[:FLAG...] ...

A name that begins with @ is that of a preset of the engine `command`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

os.environ["DJANGO_SETTINGS_MODULE"] = "routerproj.settings"
os.environ["CORRAL_VAR"] = sys.argv[1]
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

import django

django.setup()

# ruff: noqa: E402 - Django wants its settings before these
from scheduler.management.commands.runscheduler import loop_factory
from scheduler.runtime.catalog import Catalog
from scheduler.runtime.engines.llama_server import LlamaServer
from scheduler.runtime.lock import only_scheduler
from scheduler.runtime.service import SchedulerService
from tests.process.running import FAKE, FixedRegistry, config_in, preset, served


async def main() -> None:
    config = config_in(Path(sys.argv[1]), event_log=True)
    named = [word.split(":") for word in sys.argv[2:]]
    registry = FixedRegistry(
        [
            served(name[1:], *flags) if name.startswith("@") else preset(name, *flags)
            for name, *flags in named
        ]
    )
    service = SchedulerService(config, record=lambda entry: None, engine=LlamaServer(lambda: FAKE))
    catalog = Catalog(service.offer_changed, stop_timeout_seconds=0.5, registry=registry)
    with only_scheduler(config.var):
        await service.run(catalog)


with asyncio.Runner(loop_factory=loop_factory()) as runner:
    runner.run(main())
