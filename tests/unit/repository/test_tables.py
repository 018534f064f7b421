"""The tables that name a test in each row: whole, and none of the tests made up."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from proxy.endpoints import CHANGES, ENDPOINTS, REFUSED, SOCKETS

ROOT = Path(__file__).resolve().parents[3]
ENDPOINT = re.compile(r"`(GET|POST|DELETE|PUT|PATCH) (/[^` ]*)`")
TEST = re.compile(r"`(tests/[\w/.]+\.py)::(test_\w+)`")
WORDS = {"same", "better", "refused"}


def rows(document: str, heading: str) -> list[list[str]]:
    """The cells of each row of the tables under `heading`, the heads left out."""
    text = (ROOT / document).read_text()
    part = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in _tables(part)
    ]
    assert cells, f"{document} has no table under {heading}"
    return cells


def _tables(text: str) -> list[str]:
    lines = text.splitlines()
    heads = {at - 1 for at, line in enumerate(lines) if re.fullmatch(r"\|[-|]+\|", line)}
    return [
        line
        for at, line in enumerate(lines)
        if line.startswith("|") and at not in heads and at - 1 not in heads
    ]


@cache
def names_in(path: str) -> frozenset[str]:
    file = ROOT / path
    text = file.read_text() if file.exists() else ""
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", text, re.M))


def made_up(text: str) -> list[str]:
    return [f"{path}::{name}" for path, name in TEST.findall(text) if name not in names_in(path)]


ENDPOINTS_TABLE = rows("docs/compatibility.md", "Endpoints")


def answered() -> set[tuple[str, str]]:
    """Every method and path that the gateway knows, HEAD aside, which is answered as GET is."""
    known = {(method, path) for path, each in ENDPOINTS.items() for method in each.methods}
    known |= {*CHANGES, *REFUSED, *(("GET", path) for path in SOCKETS)}
    return {(method, path.rstrip("/")) for method, path in known if method != "HEAD"}


def test_the_table_has_a_row_for_each_endpoint_and_none_twice():
    told = [pair for row in ENDPOINTS_TABLE for pair in ENDPOINT.findall(row[0])]
    plain = {(method, path.removesuffix("/{id}")) for method, path in told}

    assert answered() - plain == set()
    assert len(told) == len(set(told))


def test_what_the_gateway_refuses_is_refused_in_the_table_and_nothing_else_that_it_has():
    said = {
        (method, path.removesuffix("/{id}"), path): row[1]
        for row in ENDPOINTS_TABLE
        for method, path in ENDPOINT.findall(row[0])
    }
    refused = {(method, path.rstrip("/")) for method, path in REFUSED}
    has = answered() - refused

    for (method, path, whole), word in said.items():
        if (method, path) in refused:
            assert word == "refused", whole
        elif (method, whole) in has:
            assert word != "refused", whole


@pytest.mark.parametrize("row", ENDPOINTS_TABLE, ids=lambda row: row[0])
def test_each_row_says_how_and_by_which_test(row):
    endpoints, word, how, test = row

    assert ENDPOINT.search(endpoints)
    assert word in WORDS
    assert how or word == "same"
    assert TEST.search(test)
    assert made_up(test) == []


OLLAMAS_SCHEDULER = "Ollama's scheduler: what the article says, what Ollama does, what Corral does"


def test_each_point_in_which_the_article_on_ollama_errs_is_decided_and_names_a_test():
    found = rows("docs/compatibility.md", OLLAMAS_SCHEDULER)

    assert len(found) == 20
    for point, article, ollama, corral, test in found:
        assert all((point, article, ollama, corral)), point
        assert TEST.search(test), point
        assert made_up(test) == []


COMPARED = {
    "llama.cpp's router and llama-swap": 8,
    "llama.cpp's router and vLLM's production stack": 6,
    "Ollama, vLLM and TGI": 12,
}


@pytest.mark.parametrize("heading", COMPARED)
def test_each_row_of_the_comparison_is_whole_and_names_a_test(heading):
    found = rows("docs/comparison.md", heading)

    assert len(found) == COMPARED[heading]
    assert {len(row) for row in found} == {5 if "Ollama" not in heading else 6}
    for row in found:
        assert all(row), row[0]
        assert TEST.search(row[-1]), row[0]
        assert made_up(row[-1]) == []
