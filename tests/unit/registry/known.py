"""The options of one real engine, captured: `llama-server --help` of llama-cpp-python 0.3.36."""

from __future__ import annotations

from pathlib import Path

from models_registry.options.catalogue import Catalogue, parse_help

HELP = Path(__file__).with_name("help-0.3.36.txt").read_text()
CATALOGUE: Catalogue = parse_help(HELP)
