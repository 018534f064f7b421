"""The JavaScript clients that scripts/setup.sh has installed, and Node to run them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ROOT / ".venv" / "javascript" / "node_modules"
SECONDS = 300


def node(folder: Path, *arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Node in `folder`, where modules find the clients as if they were installed there."""
    program = shutil.which("node")
    assert program, "run scripts/setup.sh test: it installs Node"
    assert INSTALLED.is_dir(), "run scripts/setup.sh test: it installs Node's clients"
    link = folder / "node_modules"
    if not link.is_symlink():
        link.symlink_to(INSTALLED)
    return subprocess.run(
        [program, *arguments],
        cwd=folder,
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
