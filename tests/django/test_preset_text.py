"""The effective preset as INI is what Corral's own reader makes of it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models_registry.engine_path import llama_server
from models_registry.ini.preset_text import preset_text
from models_registry.ini.text import parse
from models_registry.options.catalogue import engine_catalogue
from models_registry.options.command_line import parse_overlay

from .registry_rows import use_stand_in_engine


def test_arguments_come_back_from_the_text(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    catalogue = engine_catalogue(llama_server())
    switches = ("--ctx-size", "4096", "--no-warmup", "-fa", "on")
    argv = (*switches, "--chat-template-kwargs", '{"a": "b;c"}')

    text = preset_text("user/a:Q4", argv, catalogue)

    section = parse(text).sections["user/a:Q4"]
    assert {each.key: each.value for each in section.keys} == parse_overlay(argv, catalogue)
