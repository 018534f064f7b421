"""Files and functions stay small enough to read in one sitting."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("routerproj", "proxy", "scheduler", "models_registry")
MODULES = [
    path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if "migrations" not in path.parts
]


def test_no_module_is_longer_than_400_lines():
    long = {
        str(p.relative_to(ROOT)): n for p in MODULES if (n := len(p.read_text().splitlines())) > 400
    }

    assert long == {}


def test_no_function_is_longer_than_60_lines():
    long = {
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= 60
    }

    assert long == set()
