"""The JavaScript clients: each file holds tests of its own, for Node's test runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.javascript import node

pytestmark = [pytest.mark.engine, pytest.mark.slow]

PROGRAMS = Path(__file__).parent / "javascript"


def run(name: str, folder: Path, environment: dict[str, str]) -> None:
    (folder / name).write_bytes((PROGRAMS / name).read_bytes())
    done = node(folder, "--test", "--test-reporter=tap", name, env=environment)

    assert done.returncode == 0, done.stdout
    assert "\n# pass 0\n" not in done.stdout


def test_ollama_for_javascript_does_all_that_it_can(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    run("ollama.mjs", tmp_path, environment)


def test_openai_for_node_asks_as_for_python(tmp_path: Path, environment: dict[str, str]) -> None:
    run("openai.mjs", tmp_path, environment)


def test_anthropic_for_node_asks_as_for_python(tmp_path: Path, environment: dict[str, str]) -> None:
    run("anthropic.mjs", tmp_path, environment)
