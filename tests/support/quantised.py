"""The real small model in other types, made by the engine's own tool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from models_registry.engine_path import llama_server
from tests.support.made_once import CACHE, made_once
from tests.support.tiny_model import real_model


def quantised(kind: str) -> Path:
    """The file, `kind` as llama-quantize calls it."""

    def make(draft: Path) -> None:
        subprocess.run(
            [llama_server().with_name("llama-quantize"), "--allow-requantize",
             str(real_model()), str(draft), kind],
            check=True, capture_output=True,
        )  # fmt: skip

    return made_once(CACHE / f"real-{kind}.gguf", make)
