"""The real small model in other types, made by the engine's own tool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from models_registry.engine_path import llama_server
from tests.support.tiny_model import CACHE, real_model


def quantised(kind: str) -> Path:
    """The file, `kind` as llama-quantize calls it. Made once, and kept in tests/.cache."""
    made = CACHE / f"real-{kind}.gguf"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        draft = made.with_suffix(".draft")
        subprocess.run(
            [llama_server().with_name("llama-quantize"), "--allow-requantize",
             str(real_model()), str(draft), kind],
            check=True, capture_output=True,
        )  # fmt: skip
        draft.replace(made)
    return made
