"""What the keys and the names of sections mean (llamacpp_router.md 2.2 to 2.6)."""

from __future__ import annotations

import pytest

from models_registry.ini.presets import (
    PresetSection,
    PresetsFile,
    canonical_name,
    read_presets,
    targets,
)
from models_registry.ini.text import IniError

from .known import CATALOGUE


def read(text: str, *, ignore_unknown: bool = False) -> PresetsFile:
    return read_presets(text, CATALOGUE, folder="/models", ignore_unknown=ignore_unknown)


def section(keys: str) -> PresetSection:
    return read(f"[a]\n{keys}").presets["a"]


def faults(text: str) -> list[str]:
    with pytest.raises(IniError) as caught:
        read(text)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("ctx-size = 16", "ctx-size", "16"),
        ("c = 16", "ctx-size", "16"),
        ("ctx_size = 16", "ctx-size", "16"),
        ("gpu-layers = all", "n-gpu-layers", "all"),
        ("LLAMA_ARG_CTX_SIZE = 16", "ctx-size", "16"),
        ("fa = 1", "flash-attn", "on"),
        ("flash-attn = enabled", "flash-attn", "on"),
        ("warmup = off", "warmup", "false"),
        ("no-warmup = true", "warmup", "false"),
        ("no-warmup = 0", "warmup", "true"),
        ("nkvo = on", "kv-offload", "false"),
        ("no-mmproj = 1", "mmproj-auto", "false"),
        ("mmap = 1", "load-mode", "mmap"),
        ("no-mmap = 1", "load-mode", "none"),
        ("mlock = 1", "load-mode", "mmap+mlock"),
        ("draft-max = 3", "spec-draft-n-max", "3"),
        ("sleep-idle = 60", "sleep-idle-seconds", "60"),
        ("sleep-idle-seconds = -1", "sleep-idle-seconds", "-1"),
    ],
)
def test_every_spelling_of_an_option_is_taken(line: str, key: str, value: str) -> None:
    assert section(line).options == {key: value}


def test_a_negated_variable_is_not_turned_round_as_in_llama_cpp() -> None:
    found = read("[a]\nLLAMA_ARG_NO_KV_OFFLOAD = 1")

    assert found.presets["a"].options == {"kv-offload": "true"}
    assert (
        "line 2: LLAMA_ARG_NO_KV_OFFLOAD sets kv-offload to its value as it is"
        in (found.warnings[0])
    )


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("load-on-startup = 1", "load-on-startup", "true"),
        ("__PRESET_LOAD_ON_STARTUP = off", "load-on-startup", "false"),
        ("stop-timeout = 3", "stop-timeout", "3"),
        ("stop-timeout = 0", "stop-timeout", "0"),
        ("dedup-cache-models = on", "dedup-cache-models", "true"),
        ("tags = a, b,,a", "tags", "a,b"),
        ("# corral: priority = HIGH", "priority", "high"),
        ("# corral: keep_alive = -1", "keep-alive", "-1"),
        ("pinned = yes", "", "write true or false"),
        ("stop-timeout = soon", "", "takes seconds from 0"),
        ("priority = urgent", "", "takes one of low, normal, high"),
        ("context-cap = 3", "", "takes a whole number from 256"),
        ("replicas = 1e9", "", "takes a whole number from 1 to 64"),
        ("keep-alive = -2", "", "or -1 for never"),
    ],
)
def test_what_is_no_option_of_the_child_is_policy(line: str, key: str, value: str) -> None:
    if key:
        assert section(line).policy == {key: value}
        assert section(line).options == {}
    else:
        (fault,) = faults(f"[a]\n{line}")
        assert fault.startswith("line 2, column 1: ")
        assert value in fault


def test_files_are_taken_below_the_folder_of_the_file_and_names_apart() -> None:
    found = section(
        "m = sub/../a.gguf\nmmproj = /b.gguf\nspec-draft-model = c.gguf\n"
        "alias = x, y ,x\nhf = user/repo:Q4_0\nhf-file = d.gguf"
    )

    assert (found.model, found.mmproj, found.draft) == (
        "/models/a.gguf",
        "/b.gguf",
        "/models/c.gguf",
    )
    assert (found.hf_repo, found.hf_file) == ("user/repo:Q4_0", "d.gguf")
    assert found.aliases == ("x", "y")
    assert found.said == {}


@pytest.mark.parametrize("word", ["auto", "-1"])
def test_auto_is_taken_where_the_engine_has_it_and_a_switch_is_on_or_off(word: str) -> None:
    assert read(f"[a]\nfa = {word}").presets["a"].options == {"flash-attn": "auto"}
    told = f"no-warmup: is a switch: write true or false, not '{word}'"
    with pytest.raises(IniError, match=told):
        read(f"[a]\nno-warmup = {word}")


def test_of_an_option_given_twice_the_last_counts_and_it_is_told() -> None:
    found = read("[a]\nc = 16\nctx-size = 2")

    assert found.presets["a"].options == {"ctx-size": "2"}
    assert found.warnings == ["line 3: ctx-size replaces the ctx-size of line 2"]


def test_an_empty_value_says_nothing_and_version_is_kept_for_llama_cpp() -> None:
    found = read("version = 1\n[a]\nversion = x\nctx-size =")

    assert found.presets["a"].said == {}
    assert found.warnings == ["line 4: ctx-size is empty, and says nothing"]


def test_a_version_before_any_header_makes_no_section() -> None:
    assert list(read("version = 1\n[a]\nctx-size = 16").presets) == ["a"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ctx-sze = 1", "did you mean ctx-size?"),
        ("CTX-SIZE = 1", "did you mean ctx-size?"),  # capitals count, as in llama.cpp
        ("CTX-SIZE = 1", "no such option"),
        ("ctx-size = abc", "takes a whole number"),
        ("host = 0.0.0.0", "refused because it would let the child listen elsewhere"),
        ("api-key = x", "refused because"),
        ("models-max = 1", "belongs to the router"),
        ("lora = /a.gguf", "read or write other files"),
        ("chat-template-file = /a", "read or write other files"),
        ("model-url = http://a/b", "use the network"),
        ("docker-repo = ai/b", "use the network"),
        ("spec-draft-hf = a/b", "use the network"),
        ("control-vector-layer-range = 1 2", "refused because"),
        ("spec-ngram-min-hits = 1", "has been removed"),
        ("mmap = perhaps", "write true or false"),
        ("alias = a,../b", "use letters, digits"),
    ],
)
def test_a_key_that_cannot_be_taken_is_told_with_its_line(line: str, words: str) -> None:
    (fault,) = faults(f"[a]\n\n{line}")

    assert fault.startswith("line 3, column 1: ")
    assert words in fault


def test_when_it_is_asked_such_keys_are_warnings_and_the_rest_counts() -> None:
    found = read("[a]\nctx-sze = 1\nhost = x\nc = 5", ignore_unknown=True)

    assert found.presets["a"].options == {"ctx-size": "5"}
    assert [text.split(":")[0] for text in found.warnings] == [
        "line 2, column 1",
        "line 3, column 1",
    ]
    assert all(text.endswith("; ignored") for text in found.warnings)


@pytest.mark.parametrize("key", ["model = /a.gguf", "hf-repo = a/b", "alias = x", "mmproj = /a"])
def test_the_global_section_names_no_files(key: str) -> None:
    assert faults(f"[*]\nthreads = 2\n{key}") == [
        "line 1, column 1: [*] counts for every model: it can name neither a file nor an alias"
    ]


def test_the_global_section_has_options_and_policy() -> None:
    found = read("[*]\nthreads = 2\nstop-timeout = 5\n[a]")

    assert found.of_all.said == {"threads": "2", "stop-timeout": "5"}
    assert list(found.presets) == ["a"]


@pytest.mark.parametrize("name", ["a" * 300, "..", "a,b", "a//b", "\u00fc", "a/load"])
def test_a_name_that_no_client_could_ask_for_is_refused(name: str) -> None:
    (fault,) = faults(f"[b]\n[{name}]\nc = 16")

    assert fault.startswith("line 2, column 2: [")
    assert len(fault) < 200


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("user/repo:q4_k_m", "user/repo:Q4_K_M"),
        ("user/repo:UD-Q4_K_XL", "user/repo:Q4_K_XL"),
        ("user/repo:Q4_K_XL-thinking", "user/repo:THINKING"),
        ("user/repo:a.b", "user/repo:B"),
        ("user/repo", "user/repo"),
        ("name:tag", "name:tag"),
    ],
)
def test_the_tag_of_a_repository_has_one_form(written: str, meant: str) -> None:
    assert canonical_name(written) == meant


def about(text: str, *known: str) -> tuple[dict[str, str], list[str]]:
    found, conflicts = targets(read(text).presets, known)
    return {name: section.name for name, section in found.items()}, conflicts


def test_a_section_is_about_the_model_that_llama_cpp_would_mean() -> None:
    found, conflicts = about("[u/r:q4_0]\n[u/r:Q8_0]\n[own]", "u/r:Q4_0", "u/r:Q8_0")

    assert found == {"u/r:Q4_0": "u/r:q4_0", "u/r:Q8_0": "u/r:Q8_0", "own": "own"}
    assert conflicts == []


def test_names_that_people_make_up_do_not_collapse_into_one() -> None:
    text = (
        "[u/r:Q4-thinking]\nhf = u/r:Q4_0\n[u/r:Q8-thinking]\nhf = u/r:Q8_0\n[u/r:x-Q4_0]\nm = /a"
    )

    found, conflicts = about(text, "u/r:Q4_0", "u/r:THINKING")

    assert list(found) == ["u/r:Q4-thinking", "u/r:Q8-thinking", "u/r:x-Q4_0"]
    assert conflicts == []


def test_two_sections_about_one_model_are_a_conflict() -> None:
    found, conflicts = about("[u/r:q4_0]\n[u/r:Q4_0]\n[u/r:a-Q4_0]", "u/r:Q4_0")

    assert found == {"u/r:Q4_0": "u/r:Q4_0"}
    assert [text.split(":")[0] for text in conflicts] == ["line 1", "line 3"]


def test_an_alias_with_a_star_is_taken_and_told():
    found = read("[a]\nmodel = a.gguf\nalias = one, gpt-4o*, *")

    assert found.presets["a"].aliases == ("one", "gpt-4o*", "*")
    told = [line for line in found.warnings if "llama.cpp takes it for a name" in line]
    assert [line.partition(" stands")[0] for line in told] == ["line 3: gpt-4o*", "line 3: *"]


def test_a_star_elsewhere_in_an_alias_is_a_fault():
    assert "at the end" in faults("[a]\nmodel = a.gguf\nalias = g*t")[0]
