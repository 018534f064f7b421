"""What imports read: llama-server's command lines, macros, YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from models_registry.errors import ImportRefused
from models_registry.imports.macros import Macros, UnknownMacro
from models_registry.imports.server_command import NoServer, read_command
from models_registry.imports.yaml_tree import read_yaml
from models_registry.options.catalogue import Catalogue, parse_help

HELP = Path(__file__).with_name("help-0.3.36.txt")


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return parse_help(HELP.read_text())


def test_a_command_is_taken_apart_by_words_without_a_shell(catalogue: Catalogue) -> None:
    command = read_command(
        "# remarks are left out\n/opt/llama-server-b6000 --port ${PORT} --host 0.0.0.0 \\\n"
        "  -m '/m/a b.gguf' --mmproj /m/p.gguf -md /m/d.gguf -c 8192\n  # -ngl 5\n"
        "  --flash-attn --slots -ctk q8_0 --temp=0.7 --no-webui --no-context-shift",
        catalogue,
    )

    assert command.files == {
        "model": "/m/a b.gguf",
        "mmproj": "/m/p.gguf",
        "model-draft": "/m/d.gguf",
    }
    assert command.options == {
        "ctx-size": "8192",
        "flash-attn": "on",
        "cache-type-k": "q8_0",
        "temperature": "0.7",
        "context-shift": "false",
    }
    assert command.notes == []


def test_what_a_preset_may_not_set_or_the_engine_does_not_know_is_told_without_its_value(
    catalogue: Catalogue,
) -> None:
    command = read_command(
        "llama-server -m /a.gguf --api-key s3cret --lora s3cret.gguf --fancy s3cret -c abc stray "
        "-ngl 99",
        catalogue,
    )

    assert command.options == {"n-gpu-layers": "99"}
    assert [note.partition(" is")[0] for note in command.notes] == [
        "--api-key",
        "--lora",
        "--fancy",
        "-c",
        "stray",
    ]
    assert not [note for note in command.notes if "s3cret" in note]


def test_what_older_engines_called_otherwise_is_translated(catalogue: Catalogue) -> None:
    command = read_command("llama-server -m /a.gguf --mlock --no-mmap --draft-max 8", catalogue)

    assert command.options == {"load-mode": "mlock", "spec-draft-n-max": "8"}


def test_wrappers_are_left_out_and_env_gives_variables(catalogue: Catalogue) -> None:
    bound = read_command("numactl --membind=0 llama-server -m /a.gguf", catalogue)
    env = read_command("/usr/bin/env A=1 B= /usr/bin/llama-server -m /a.gguf", catalogue)

    assert bound.notes == ["numactl and its own options before llama-server are not taken"]
    assert env.environment == {"A": "1", "B": ""}
    assert bound.files == env.files == {"model": "/a.gguf"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("docker run --rm ghcr.io/x:server -m /a.gguf", "container"),
        ("bash -c 'llama-server -m /a.gguf'", "bash runs it"),
        ("vllm serve x", "vllm is not llama-server"),
        ("nice python x.py", "nice is not llama-server"),
        ("llama-server -m 'a", "cannot be split"),
        ("# nothing\n", "no command"),
        ("", "no command"),
    ],
)
def test_what_is_not_llama_server_is_said_to_be_so(
    text: str, why: str, catalogue: Catalogue
) -> None:
    with pytest.raises(NoServer, match=why):
        read_command(text, catalogue)


def test_macros_are_made_of_those_before_them_and_keep_what_they_are() -> None:
    macros = Macros({"HOME": "/home/x"}).within(
        {"n": 4096, "args": "-c ${n}", "d": "${env.HOME}/m"}
    )
    inner = macros.within({"MODEL_ID": "q", "n": 8})

    assert (
        inner.expanded("${args} ${d} ${MODEL_ID}:${n} ${PORT}") == "-c 4096 /home/x/m q:8 ${PORT}"
    )
    assert inner.expanded({"${MODEL_ID}:x": ["${n}", True]}) == {"q:x": [8, True]}


def test_a_macro_that_is_not_known_hurts_only_who_uses_it() -> None:
    macros = Macros({}).within({"a": "${env.SECRET}", "self": "${self}", "b": 1})

    assert macros.expanded("${b}") == 1
    for text in ("${a}", "${self}", "x ${later}"):
        with pytest.raises(UnknownMacro):
            macros.expanded(text)


def test_macros_of_macros_have_an_end() -> None:
    doubled = {f"m{number + 1}": f"${{m{number}}}${{m{number}}} " for number in range(40)}
    macros = Macros({}).within({"m0": "xxxxxxxx", **doubled})

    with pytest.raises(UnknownMacro, match="more than 65536"):
        macros.expanded("-${m40}")


def test_yaml_keys_are_words_as_written_and_have_lines() -> None:
    tree = read_yaml("\ufeffa: 1\r\nb:\r\n  1.50: on\r\n  no: {x: 2}\r\nc: [1, {d: 3}]\r\n")

    assert tree.value == {"a": 1, "b": {"1.50": True, "no": {"x": 2}}, "c": [1, {"d": 3}]}
    assert [tree.line(*path) for path in (["a"], ["b", "no", "x"], ["c", "1", "d"])] == [1, 4, 5]
    assert tree.line("b", "1.50", "gone") == 3
    assert tree.line("gone") == 1


def test_merged_keys_stand_below_a_mappings_own() -> None:
    tree = read_yaml("x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz:\n  <<: [*x, *y]\n  a: 3\n")

    assert tree.value["z"] == {"a": 3, "b": 1, "c": 2}


BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]\n" for number in range(1, 20)
)
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{number}: &a{number}\n  <<: [{', '.join([f'*a{number - 1}'] * 9)}]\n"
    for number in range(1, 20)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2\n", "line 2: a stands here a second time"),
        ("a: [1\nb: 2\n", "line 2"),
        ("a: \t- x: {", "line 1"),
        ("a: !!python/object:os.system {}\n", "line 1"),
        ("? [a]\n: 1\n", "line 1: a key must be a word"),
        ("a: &a\n  b: *a\n", "deep"),
        ("a: &a\n  <<: *a\n", "deep|more than|nested"),
        ("<<: [1]\n", "merges mappings only"),
        (BOMB, "more than 50000 values"),
        (MERGE_BOMB, "more than 50000 values"),
        ("[" * 3000, "."),
        ("a: " + "x" * (256 << 10), "longer than"),
        ("a: \x00", "."),
        ("a: 2026-99-99\n", "."),
        ("--- 1\n--- 2\n", "line 2"),
    ],
    ids=range(15),
)
def test_yaml_that_is_broken_or_a_trap_is_refused_at_once(text: str, words: str) -> None:
    with pytest.raises(ImportRefused, match=words):
        read_yaml(text)
