"""Loaded before the settings (pyproject's `-p`): tests never touch the checkout's own state."""

from __future__ import annotations

import os
from pathlib import Path

os.environ["CORRAL_VAR"] = str(Path(__file__).resolve().parent / ".cache" / "var")
