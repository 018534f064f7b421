"""Loaded before the settings (pyproject's `-p`): tests never touch the checkout's own state. Each
of the lanes that scripts/tests.py runs side by side has a folder of its own."""

from __future__ import annotations

import gc
import os
from pathlib import Path

os.environ["CORRAL_HF_CACHE"] = "0"  # nor at what whoever runs them has downloaded
for _name in [name for name in os.environ if name.startswith("OLLAMA_")]:
    del os.environ[_name]  # they count as defaults
os.environ["CORRAL_VAR"] = str(
    Path(__file__).resolve().parent / ".cache" / f"var{os.environ.get('CORRAL_TESTS', '')}"
)

# Looking for garbage in all that was imported took a tenth of a lane
gc.set_threshold(50_000, 20, 20)
