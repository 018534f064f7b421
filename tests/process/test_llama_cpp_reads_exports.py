"""llama.cpp's own router reads what Corral writes, and would start the same."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from models_registry.engine_path import llama_server
from models_registry.ini.exporting import export_ini
from models_registry.launch import launch_specs
from models_registry.models import Alias, GlobalPreset, ModelFile, Preset

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.django_db]

CORRALS_OWN = {"--cache-ram", "--swa-checkpoints"}
"""Its defaults, which no file says."""


@contextmanager
def router(file: Path, folder: Path) -> Iterator[int]:
    """The port of llama.cpp's router with that presets file."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LLAMA_CACHE": str(folder)}
    command = [llama_server(), "--host", "127.0.0.1", "--port", str(port), "--offline"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [*command, "--models-preset", file],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield port
        finally:
            process.terminate()


def listed(port: int, log: Path) -> dict[str, dict[str, Any]]:
    """Its models by name, once it answers."""
    for _ in range(300):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/models")
            answer = connection.getresponse()
            if answer.status == 200:
                return {entry["id"]: entry for entry in json.load(answer)["data"]}
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.1)
    raise AssertionError(f"the router did not answer: {log.read_text()[-2000:]}")


def words(argv: list[str] | tuple[str, ...]) -> set[tuple[str, str]]:
    """(option, value), where it has one."""
    pairs = zip(argv, [*argv[1:], "--"], strict=True)
    return {
        (name, "" if value.startswith("--") else value)
        for name, value in pairs
        if name.startswith("--") and name not in CORRALS_OWN
    }


def test_it_starts_each_preset_with_the_same_options(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith("LLAMA_"):
            monkeypatch.delenv(name)
    settings.CORRAL_COMMAND_LINE = {}
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    model_file = ModelFile.objects.create(path=str(tmp_path / "a.gguf"))
    GlobalPreset.objects.create(options="threads = 2\nkeep-alive = 60")
    base = Preset.objects.create(
        name="base",
        model_file=model_file,
        ctx_size=4096,
        parallel=2,
        embeddings=False,
        extra_options="no-warmup = true\nmmap = 1\nno-kv-offload = 0",
        priority="high",
    )
    Preset.objects.create(
        name="heir", model_file=model_file, base=base, file_options={"temperature": "0.5"}
    )
    Alias.objects.create(name="other", preset=base)
    file = tmp_path / "models.ini"
    file.write_text(export_ini())

    with router(file, tmp_path) as port:
        found = listed(port, tmp_path / "log")

    assert set(found) == {"base", "heir"}
    assert found["base"]["aliases"] == ["other"]
    for spec in launch_specs():
        assert words(spec.argv) <= words(found[spec.preset]["status"]["args"])
