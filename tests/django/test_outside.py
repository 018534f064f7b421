"""What may cure a preset that cannot be started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from models_registry.outside import outside_state


def test_it_changes_with_the_files_and_with_the_engine(tmp_path: Path, settings: Any) -> None:
    file, engine = tmp_path / "a.gguf", tmp_path / "llama-server"
    settings.CORRAL_LLAMA_SERVER = str(engine)
    seen = [outside_state([str(file)])]

    for change in (
        lambda: file.write_bytes(b"GGUF"),
        lambda: file.write_bytes(b"GGUF more"),
        lambda: (engine.write_text("#!/bin/sh\n"), engine.chmod(0o755)),
        file.unlink,
    ):
        change()
        seen.append(outside_state([str(file)]))

    assert len(set(map(repr, seen))) == len(seen)
    assert outside_state([str(file)]) == seen[-1]
