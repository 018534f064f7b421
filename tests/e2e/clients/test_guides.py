"""What the guides in docs/clients show is run as it stands there, against a gateway whose address
is another."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support.javascript import node

pytestmark = [pytest.mark.engine, pytest.mark.slow]

GUIDES = Path(__file__).resolve().parents[3] / "docs" / "clients"
BLOCK = re.compile(r"^```(python|js|sh)\n(.*?)^```$", re.M | re.S)
ADDRESSES = {"http://127.0.0.1:8080": "CORRAL_URL", "http://127.0.0.1:11434": "CORRAL_OLLAMA"}


@dataclass(frozen=True)
class Snippet:
    page: str
    number: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}-{self.number}"


SNIPPETS = [
    Snippet(page.stem, number, *block)
    for page in sorted(GUIDES.glob("*.md"))
    for number, block in enumerate(BLOCK.findall(page.read_text()), 1)
]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=str)
def test_a_guide_does_what_it_shows(
    snippet: Snippet, tmp_path: Path, environment: dict[str, str]
) -> None:
    text = snippet.text
    for address, name in ADDRESSES.items():
        text = text.replace(address, environment[name])
    assert text != snippet.text, "it asks no gateway"

    done = run(snippet.language, text, tmp_path, environment)

    assert done.returncode == 0, done.stdout
    assert done.stdout.strip()


def run(
    language: str, text: str, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    if language == "js":
        (folder / "snippet.mjs").write_text(text)
        return node(folder, "snippet.mjs", env=environment)
    command = [sys.executable, "-c", text] if language == "python" else ["bash", "-ec", text]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )


def test_configurations_of_the_guides_can_be_read() -> None:
    codex = tomllib.loads(block("codex", "toml"))
    editor = yaml.safe_load(block("continue", "yaml"))

    assert codex["model_providers"][codex["model_provider"]]["wire_api"] == "responses"
    assert {model["provider"] for model in editor["models"]} == {"openai"}


def block(page: str, language: str) -> str:
    [found] = re.findall(
        rf"^```{language}\n(.*?)^```$", (GUIDES / f"{page}.md").read_text(), re.M | re.S
    )
    return str(found)


def test_each_client_of_the_index_has_a_guide_and_each_guide_is_in_it() -> None:
    index = (GUIDES.parent / "clients.md").read_text()

    assert set(re.findall(r"\]\(clients/([\w-]+)\.md\)", index)) == {
        page.stem for page in GUIDES.glob("*.md")
    }
