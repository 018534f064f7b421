"""Who sends nothing to OpenTelemetry has nothing of it in memory, in no process."""

from __future__ import annotations

import os
import subprocess
import sys

FRESH = """
import sys
import django
django.setup()
from routerproj.wiring import Wiring
import scheduler.management.commands.runscheduler
import scheduler.management.commands.runjobs as jobs
Wiring.from_settings()
jobs.consumers()
found = {name.partition(".")[0] for name in sys.modules}
print(*sorted(found & {"opentelemetry", "requests"}))
"""


def test_nothing_of_opentelemetry_is_imported_unless_it_is_sent_somewhere(tmp_path):
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
        "CORRAL_VAR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "routerproj.settings",
    }
    found = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, text=True, check=True, env=environment
    )
    assert found.stdout.split() == []
