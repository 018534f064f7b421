"""A llama-swap configuration becomes presets, groups and aliases, and says what it could not."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from models_registry import staging
from models_registry.access import Asker
from models_registry.errors import ImportRefused, ManagementRefused
from models_registry.imports import llama_swap
from models_registry.imports.applying import apply
from models_registry.imports.plan import ImportReport
from models_registry.launch import launch_specs
from models_registry.models import Alias, Group, ModelFile, Preset

from .registry_rows import gguf, make_model_file, make_preset, use_stand_in_engine

pytestmark = pytest.mark.django_db

ADMIN = Asker("a test", everything=True)

CONFIG = """\
healthCheckTimeout: 90
globalTTL: 600
apiKeys: [sk-hidden]
macros:
  server: >
    /opt/llama.cpp/llama-server-b6000
    --port ${PORT} --host 127.0.0.1
  models: MODELS
  unused: ${env.NOT_SET_ANYWHERE}
models:
  qwen:
    cmd: |
      # the large one, by ${server}
      ${server} -m ${models}/qwen.gguf --mmproj ${models}/mmproj.gguf -c 8192 -np 2
      -ngl 99 --api-key hidden --temp 0.7
    name: Qwen
    ttl: 0
    concurrencyLimit: 6
    env:
      - CUDA_VISIBLE_DEVICES=0,1
      - LLAMA_ARG_THREADS=3
      - LD_PRELOAD=/hidden.so
    aliases:
      - coder
      - id: gpt-4o
        unlisted: true
    filters:
      stripParams: "temperature, model, top_p"
      setParams:
        top_k: 20
        stream: true
      setParamsByID:
        "${MODEL_ID}":
          chat_template_kwargs: {enable_thinking: false}
        "${MODEL_ID}:thinking":
          chat_template_kwargs: {enable_thinking: true}
  embed:
    cmd: ${server} -m embed.gguf --embeddings
    unlisted: true
    unloadTimeout: 5
  boxed:
    cmd: docker run --rm image -m /x.gguf
    cmdStop: docker stop boxed
  remote:
    proxy: http://10.0.0.1:8080
groups:
  big:
    members: [qwen, embed, gone]
    exclusive: false
matrix: {sets: {}}
hooks:
  on_startup:
    preload: [coder, nobody]
routing:
  scheduler: {settings: {fifo: {priority: {embed: 5}}}}
colour: red
"""


@pytest.fixture(autouse=True)
def _engine(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    for name in ("qwen", "mmproj", "embed"):
        gguf(tmp_path / f"{name}.gguf")


@pytest.fixture
def text(tmp_path: Path) -> str:
    return CONFIG.replace("MODELS", str(tmp_path))


def imported(text: str, folder: Path, **options: Any) -> ImportReport:
    return apply(llama_swap.plan(text, folder=folder), ADMIN, **options)


def test_what_can_be_taken_is_taken(text: str, tmp_path: Path) -> None:
    report = imported(text, tmp_path)

    assert report.added == ["qwen", "embed"]
    qwen = Preset.objects.get(name="qwen")
    assert (qwen.ctx_size, qwen.parallel, qwen.n_gpu_layers, qwen.threads) == (8192, 2, "99", 3)
    assert qwen.extra_options == "temperature = 0.7"
    assert (qwen.keep_alive, qwen.queue_limit, qwen.load_on_startup) == (-1, 4, True)
    assert qwen.environment == "CUDA_VISIBLE_DEVICES=0,1"
    assert qwen.request_strip == "temperature, top_p"
    assert qwen.request_set == {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}}
    assert {alias.name: alias.request_set for alias in qwen.aliases.all()} == {
        "coder": {},
        "gpt-4o": {},
        "qwen:thinking": {"chat_template_kwargs": {"enable_thinking": True}},
    }
    assert qwen.model_file.path == str(tmp_path / "qwen.gguf")
    assert qwen.model_file.mmproj == str(tmp_path / "mmproj.gguf")
    embed = Preset.objects.get(name="embed")
    assert (embed.embeddings, embed.unlisted, embed.priority) == (True, True, "high")
    assert (embed.keep_alive, embed.stop_timeout, embed.queue_limit) == (600, 5, None)
    assert embed.model_file.path == str(tmp_path / "embed.gguf")
    big = Group.objects.get()
    assert (big.name, big.one_at_a_time, big.exclusive, big.persistent) == (
        "big", True, False, False,
    )  # fmt: skip
    assert {preset.name for preset in big.presets.all()} == {"qwen", "embed"}
    assert not [spec.problem for spec in launch_specs() if spec.problem]


def test_what_cannot_be_taken_is_listed_with_its_line_and_without_secrets(
    text: str, tmp_path: Path
) -> None:
    report = imported(text, tmp_path)

    lines = CONFIG.splitlines()
    notes = [note.partition(": ") for note in report.notes]
    told = [(lines[int(line.removeprefix("line ")) - 1].strip(), words) for line, _, words in notes]
    assert [(line, words.partition(" is ")[0].partition(":")[0]) for line, words in told] == [
        ("healthCheckTimeout: 90", "healthCheckTimeout"),
        ("apiKeys: [sk-hidden]", "apiKeys"),
        ("cmd: |", "models.qwen.cmd"),
        ("name: Qwen", "models.qwen.name"),
        ("env:", "models.qwen.env"),
        ("aliases:", "models.qwen.aliases"),
        ('stripParams: "temperature, model, top_p"', "models.qwen.filters.stripParams"),
        ("setParams:", "models.qwen.filters.setParams"),
        ("setParamsByID:", "models.qwen.filters.setParamsByID.qwen"),
        ("big:", "groups.big"),
        ("matrix: {sets: {}}", "matrix"),
        ("preload: [coder, nobody]", "nobody"),
        (
            "scheduler: {settings: {fifo: {priority: {embed: 5}}}}",
            "models.embed",
        ),
        ("colour: red", "colour"),
    ]
    assert [str(skipped) for skipped in report.skipped] == [
        "boxed: docker runs it in a container, whose paths are not this machine's (line 41)",
        "remote: it has no command (line 44)",
    ]
    assert "hidden" not in "\n".join(report.lines())


def test_a_dry_run_says_the_same_and_changes_nothing(text: str, tmp_path: Path) -> None:
    tried = imported(text, tmp_path, dry_run=True)

    assert not Preset.objects.exists()
    assert not ModelFile.objects.exists()
    assert not Group.objects.exists()
    done = imported(text, tmp_path)
    assert (tried.added, tried.skipped, tried.notes) == (done.added, done.skipped, done.notes)


def test_names_that_are_taken_stay_as_they_are_and_the_rest_goes_on(
    text: str, tmp_path: Path
) -> None:
    other = make_preset("embed", make_model_file(tmp_path / "other.gguf"), ctx_size=512)
    Alias.objects.create(name="coder", preset=other)
    Group.objects.create(name="big", exclusive=True)

    report = imported(text, tmp_path)

    assert report.added == ["qwen"]
    assert str(report.skipped[-1]) == "embed: a preset has this name already, and stays as it is"
    assert "qwen: the alias coder is not taken: it is an alias of embed" in report.notes
    assert [note for note in report.notes if note.startswith("the group big is there already")]
    assert Preset.objects.get(name="embed").model_file == other.model_file
    assert Group.objects.get().exclusive is True
    again = imported(text, tmp_path)
    assert again.added == []
    assert Preset.objects.count() == 2


def test_a_file_that_is_missing_skips_its_model_alone(tmp_path: Path) -> None:
    text = "models:\n  a: {cmd: llama-server -m gone.gguf}\n  b: {cmd: llama-server -m qwen.gguf}\n"

    report = imported(text, tmp_path)

    assert report.added == ["b"]
    assert [skipped.name for skipped in report.skipped] == ["a"]
    assert report.skipped[0].why.startswith(f"{tmp_path / 'gone.gguf'}: ")
    assert "cannot be read" in report.skipped[0].why
    assert ModelFile.objects.count() == 1


def test_a_model_of_hugging_face_is_the_one_that_is_in_the_cache(tmp_path: Path) -> None:
    found = make_preset("user/repo:Q4_K_M", make_model_file(tmp_path / "cached.gguf"))
    names = {"a": "user/repo", "b": "user/no", "c": "hf.co/user/repo:q4_k_m"}
    models = [f"  {id}: {{cmd: 'llama-server -hf {name}'}}\n" for id, name in names.items()]

    report = imported("models:\n" + "".join(models), tmp_path)

    assert report.added == ["a", "c"]
    assert {each.model_file for each in Preset.objects.all()} == {found.model_file}
    assert Preset.objects.get(name="a").base is None
    assert "no model here is called user/no: download it" in report.skipped[0].why


def test_without_a_folder_and_an_environment_neither_is_guessed(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOT_SET_ANYWHERE", "hidden")
    plan = llama_swap.plan(text.replace("  qwen:\n", "  late:\n    cmd: ${unused}\n  qwen:\n"))

    assert {skipped.name: skipped.why.partition(":")[0] for skipped in plan.skipped}.items() >= {
        "embed": "embed.gguf is a relative path",
        "late": "${env.NOT_SET_ANYWHERE} is not known here",
    }.items()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has `models:`"),
        ("[]", "has `models:`"),
        ("models: [a]", "has `models:`"),
        ("models: {a: 1", "line 1"),
        ('models:\n  a: {cmd: "x \\ud800"}', "line 2: this holds half a surrogate pair"),
        ('models:\n  "\\udfff": {cmd: x}', "line 2: this holds half a surrogate pair"),
    ],
)
def test_what_is_no_configuration_changes_nothing(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match=words):
        imported(text, tmp_path)


def test_values_of_odd_kinds_are_told_and_break_nothing(tmp_path: Path) -> None:
    text = """\
models:
  a:
    cmd: llama-server -m qwen.gguf
    ttl: soon
    concurrencyLimit: [1]
    unloadTimeout: yes
    env: {A: 1}
    aliases: coder
    filters: [x]
    macros: 7
  b: 5
  c: {cmd: [llama-server]}
  "x y,z": {cmd: llama-server -m qwen.gguf}
groups: 5
hooks: [1]
routing: no
globalTTL: soon
profiles: {p: [a]}
"""

    report = imported(text, tmp_path)

    assert report.added == ["a", "x y-z"]
    assert [skipped.name for skipped in report.skipped] == ["b", "c"]
    told = "\n".join(report.notes)
    for key in ("ttl", "concurrencyLimit", "unloadTimeout", "env", "aliases", "filters", "macros"):
        assert f"models.a.{key}: it " in told
    for key in ("groups", "hooks", "routing", "globalTTL"):
        assert f"{key} is not taken: it " in told
    assert len(report.notes) == 13


def test_no_import_keeps_others_from_writing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    gguf(tmp_path / "qwen.gguf")
    models = [
        f"  m{number}: {{cmd: llama-server -m {tmp_path}/qwen.gguf, aliases: [a{number}]}}\n"
        for number in range(100)
    ]
    plan = llama_swap.plan("models:\n" + "".join(models))

    with django_assert_max_num_queries(55):
        assert len(apply(plan, ADMIN).added) == 100
    assert Preset.history.filter(history_change_reason="a test").count() == 100
    Preset.objects.all().delete()
    monkeypatch.setattr(staging, "MOST_PRESETS", 99)
    with pytest.raises(ImportRefused, match=r"100 presets.*at most 99: import it in parts"):
        apply(plan, ADMIN)
    assert not Preset.objects.exists()


def test_numbers_without_an_end_are_told_and_break_nothing(tmp_path: Path) -> None:
    text = """\
globalTTL: .inf
models:
  a:
    cmd: llama-server -m qwen.gguf
    ttl: .nan
    concurrencyLimit: .inf
    unloadTimeout: -.inf
  b:
    cmd: llama-server -m qwen.gguf
    ttl: LONG
    concurrencyLimit: LONG
    unloadTimeout: LONG
""".replace("LONG", "9" * 400)

    report = imported(text, tmp_path)

    assert report.added == ["a", "b"]
    assert [note.endswith("it is not a number") for note in report.notes] == [True] * 7
    for preset in Preset.objects.all():
        assert (preset.keep_alive, preset.queue_limit, preset.stop_timeout) == (None, None, None)


def test_a_macro_in_a_remark_is_none(tmp_path: Path) -> None:
    text = "models:\n  a:\n    cmd: |\n      # once ${server}\n      llama-server -m qwen.gguf\n"

    assert imported(text, tmp_path).added == ["a"]


def test_an_option_behind_what_was_a_switch_is_not_its_value(tmp_path: Path) -> None:
    text = "models:\n  a: {cmd: llama-server -fa --no-mmap -m qwen.gguf -fa --unheard-of 3}\n"

    imported(text, tmp_path)

    preset = Preset.objects.get()
    assert preset.flash_attn == "on"
    assert "no-mmap" in preset.extra_options or "load-mode = none" in preset.extra_options


def test_a_model_of_two_groups_is_in_the_last_which_is_told(tmp_path: Path) -> None:
    text = """\
models: {a: {cmd: llama-server -m qwen.gguf}}
groups: {one: {members: [a]}, two: {members: [a]}}
"""

    report = imported(text, tmp_path)

    assert Preset.objects.get().group == Group.objects.get(name="two")
    assert "line 2: groups.two: a leaves one for it: a preset is in one group" in report.notes[0]


def test_who_may_not_add_presets_imports_nothing(text: str, tmp_path: Path) -> None:
    plan = llama_swap.plan(text, folder=tmp_path)

    with pytest.raises(ManagementRefused, match=r"models_registry\.add_preset"):
        apply(plan, Asker("nobody"))


def test_the_command_says_line_by_line_what_it_did(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HERE", "embed.gguf")
    file = tmp_path / "config.yaml"
    file.write_text(text.replace("-m embed.gguf", "-m ${env.FROM_HERE}"))
    out = io.StringIO()

    with pytest.raises(CommandError, match="2 of its models were not taken"):
        call_command("import_llama_swap", str(file), "--dry-run", stdout=out)
    assert out.getvalue().startswith("would add qwen\nwould add embed\nnot taken: boxed: ")
    assert not Preset.objects.exists()

    with pytest.raises(CommandError, match="2 of its models were not taken"):
        call_command("import_llama_swap", str(file), stdout=out)
    assert Preset.objects.count() == 2
    with pytest.raises(CommandError, match="4 of its models were not taken"):
        call_command("import_llama_swap", str(file), stdout=out)
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        call_command("import_llama_swap", str(tmp_path / "no.yaml"), stdout=out)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="no UTF-8"):
        call_command("import_llama_swap", str(file), stdout=out)
