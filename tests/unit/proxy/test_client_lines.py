"""What is pasted into clients: it is what each of them can read, whatever the model is called."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import pytest
import yaml

from proxy.first_steps.clients import clients

ROOT = Path(__file__).resolve().parents[3]
ODD = """it's "odd" $HOME \\ `x` 中"""


def lines(model: str = "org/qwen:Q4") -> dict[str, str]:
    return {each.name: each.text for each in clients("https://gpu.example", "ck_key", model)}


@pytest.mark.parametrize("name", lines())
def test_each_has_the_address_and_the_key(name):
    assert "https://gpu.example" in lines()[name]
    assert "ck_key" in lines()[name]


def test_ids_are_different():
    assert len({each.id for each in clients("x", "y", "z")}) == len(lines())


@pytest.mark.parametrize("model", ["org/qwen:Q4", ODD])
def test_a_model_of_any_name_is_named_so(model):
    found = lines(model)

    python = ast.parse(found["OpenAI SDK Python"])
    texts = {node.value for node in ast.walk(python) if isinstance(node, ast.Constant)}
    assert model in texts
    continues = yaml.safe_load(found["Continue"])["models"][0]
    assert (continues["model"], continues["apiBase"]) == (model, "https://gpu.example/v1")
    exported = shlex.split(found["Claude Code"].splitlines()[2])
    assert exported == ["export", f"ANTHROPIC_MODEL={model}"]
