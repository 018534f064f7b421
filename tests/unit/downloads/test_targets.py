"""What a download's target means, and what is none."""

from __future__ import annotations

import pytest

from models_registry.downloads.targets import (
    BadTarget,
    HubTarget,
    OllamaTarget,
    UrlTarget,
    check_revision,
    parse,
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("user/repo", HubTarget("user/repo")),
        ("user/repo:Q4_K_M", HubTarget("user/repo", "Q4_K_M")),
        ("u_1/r.e-po:a/b-Q8_0.gguf", HubTarget("u_1/r.e-po", file="a/b-Q8_0.gguf")),
    ],
)
def test_a_repository_has_a_tag_or_a_file(text: str, meant: HubTarget) -> None:
    assert parse("hub", text) == meant


@pytest.mark.parametrize(
    "text",
    [
        "", "repo", "user/", "/repo", "user/repo/more", "user/repo:", "user/../etc", "us er/repo",
        "-u/repo",
        "user/repo:../x.gguf", "user/repo:/x.gguf", "user/repo:a:b", "üser/repo", "u/r\n", "u--x/r",
        "user/" + "r" * 300, "user/repo:" + "x" * 2000,
    ],
)  # fmt: skip
def test_what_is_no_repository_is_said(text: str) -> None:
    with pytest.raises(BadTarget):
        parse("hub", text)


def test_a_url_names_a_file_and_may_name_its_checksum() -> None:
    digest = "a1" * 32

    meant = parse("url", f"https://host/a%20b/m-Q8_0.gguf?download=true#sha256={digest}")

    assert meant == UrlTarget("https://host/a%20b/m-Q8_0.gguf?download=true", "m-Q8_0.gguf", digest)
    assert meant.name == "m-Q8_0"


@pytest.mark.parametrize(
    "text",
    [
        "host/m.gguf", "ftp://host/m.gguf", "file:///m.gguf", "https:///m.gguf", "https://host/",
        "https://h/m.bin",
        "https://u:p@h/m.gguf", "https://h:99999/m.gguf", "https://h/m.gguf#sha256=12",
        "https://h/ m.gguf",
        "https://h/%2e%2e%2fm.gguf\n", "https://h/a/.gguf", "https://h/ü.gguf",
        "https://[::1/m.gguf",
        "https://h/..%2f.gguf",
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_model_is_said(text: str) -> None:
    with pytest.raises(BadTarget):
        parse("url", text)


@pytest.mark.parametrize(
    ("text", "meant", "name"),
    [
        ("llama3.2", OllamaTarget("llama3.2"), "llama3.2:latest"),
        ("llama3.2:1b", OllamaTarget("llama3.2", "1b"), "llama3.2:1b"),
        ("me/mine:v1", OllamaTarget("mine", "v1", "me"), "me/mine:v1"),
        ("h.test:5000/me/m", OllamaTarget("m", "latest", "me", "h.test:5000"),
         "h.test:5000/me/m:latest"),
    ],
)  # fmt: skip
def test_an_ollama_name_has_what_is_left_out_by_default(
    text: str, meant: OllamaTarget, name: str
) -> None:
    assert parse("ollama", text) == meant
    assert meant.name == name


@pytest.mark.parametrize(
    "text", ["", "a/b/c/d", "a:b:c", "../x", "a b", "-x", "a/..:b", "http://h/a/b"]
)
def test_what_is_no_ollama_name_is_said(text: str) -> None:
    with pytest.raises(BadTarget):
        parse("ollama", text)


def test_only_repositories_have_revisions() -> None:
    check_revision("hub", "refs/pr/1")
    check_revision("url", "")
    for kind, revision in (("url", "main"), ("hub", "../x"), ("hub", "a b"), ("ollama", "1")):
        with pytest.raises(BadTarget):
            check_revision(kind, revision)
