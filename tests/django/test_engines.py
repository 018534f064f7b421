"""Presets of other engines than llama-server: what is taken, what is refused, where keys go."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from models_registry import editing, fitting, history, kept_secrets, python_server
from models_registry.access import Asker
from models_registry.cloning import clone
from models_registry.describing import described
from models_registry.errors import ManagementRefused, NotRegistered
from models_registry.ini.exporting import export_ini
from models_registry.launch import LaunchSpec, launch_spec_of, launch_specs
from models_registry.models import ModelFile, Preset
from models_registry.ports import PresetStatus
from models_registry.registration import register_model
from models_registry.sources.discovery import rescan
from models_registry.sources.reading import Places
from routerproj.serve.first_run import some_model
from tests.django.management import staff
from tests.django.registry_rows import FakeScheduler, gguf, make_model_file, use_scheduler

pytestmark = pytest.mark.django_db
SERVE = f"'{sys.executable}' -m a.server --port ${{port}}"
ADMIN = Asker(label="a test", everything=True)
EDITOR = Asker(label="an editor", everything=False)


def command(**fields: Any) -> Preset:
    told = {"engine": "command", "command_line": SERVE, "declared_memory": {"Host": 100}}
    return Preset(**{"name": "a", **told, **fields})


def upstream(**fields: Any) -> Preset:
    told = {"engine": "upstream", "upstream_url": "https://far.example/api/"}
    return Preset(**{"name": "far", **told, **fields})


def saved(preset: Preset) -> Preset:
    return editing.saved(preset, ADMIN)


def spec_of(preset: Preset) -> LaunchSpec:
    return launch_spec_of(saved(preset))


def faults(preset: Preset) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as refused:
        preset.full_clean()
    return refused.value.message_dict


# What is started --------------------------------------------------------------------------


def test_a_command_needs_no_model_file_and_no_llama_server(settings: Any) -> None:
    settings.CORRAL_LLAMA_SERVER = "/nowhere/llama-server"

    spec = spec_of(command(parallel=3, health_path="/v1/models", environment="A_WORD=1"))

    assert spec.problem == ""
    assert (spec.model_path, spec.argv, spec.parallel) == ("", (), 3)
    assert (spec.engine.kind, spec.engine.command_line) == ("command", SERVE)
    assert spec.engine.health_path == "/v1/models"
    assert spec.engine.declared == {"Host": 100 << 20}
    assert spec.env == {"A_WORD": "1"}
    assert spec.memory_fingerprint


@pytest.mark.parametrize(
    "changed",
    [
        {"command_line": SERVE + " --more"},
        {"health_path": "/ready"},
        {"environment": "A_WORD=2"},
    ],
)
def test_whatever_changes_what_is_started_changes_the_fingerprint(changed: dict[str, Any]) -> None:
    preset = saved(command())
    before = launch_spec_of(preset).fingerprint

    after = spec_of(Preset.objects.get(pk=editing.change_preset("a", changed, ADMIN).pk))

    assert after.fingerprint != before


def test_slots_come_from_the_nearest_base_that_says_them() -> None:
    base = saved(command(name="base", parallel=7))

    assert spec_of(command(base=base)).parallel == 7
    assert spec_of(command(name="b")).parallel == 4


def test_a_command_is_told_as_it_stands_with_its_file_filled_in(tmp_path: Path) -> None:
    file = make_model_file(tmp_path / "with blank.gguf")
    line = f"'{sys.executable}' -m ${{model}} --name ${{preset}} --uds ${{socket}}"

    told = described(saved(command(model_file=file, command_line=line)))

    assert told["argv"] == (
        sys.executable, "-m", file.path, "--name", "a", "--uds", "${socket}",
    )  # fmt: skip


def test_an_upstream_takes_nothing_and_calls_the_model_as_it_is_told() -> None:
    spec = spec_of(upstream(upstream_model="gpt-x", connect_timeout=2.5))

    assert (spec.engine.kind, spec.engine.url) == ("upstream", "https://far.example/api")
    assert (spec.engine.model, spec.memory_fingerprint) == ("gpt-x", "")
    assert spec.connect_timeout_seconds == 2.5
    assert spec_of(upstream(name="b")).engine.model == "b"


# What is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "field", "why"),
    [
        ({"command_line": ""}, "command_line", "write the program"),
        ({"command_line": f"{sys.executable} 'x"}, "command_line", "close the quotation"),
        ({"command_line": sys.executable}, "command_line", "where to listen"),
        ({"command_line": SERVE + " ${socket}"}, "command_line", "not both"),
        ({"command_line": SERVE + " ${HOME}"}, "command_line", "${HOME} is unknown"),
        ({"command_line": SERVE + " ${port"}, "command_line", "is never closed"),
        ({"command_line": "${model} ${port}"}, "command_line", "program's own name"),
        ({"command_line": "/nowhere/at-all ${port}"}, "command_line", "no program"),
        ({"command_line": SERVE + " ${model}"}, "model_file", "choose a model file"),
        ({"health_path": "health"}, "health_path", "from / on"),
        ({"declared_memory": {}}, "declared_memory", "cannot be measured"),
        ({"declared_memory": {"Host": 0}}, "declared_memory", "whole MiB"),
        ({"declared_memory": {"Host": 1.5}}, "declared_memory", "whole MiB"),
        ({"declared_memory": {"Host": True}}, "declared_memory", "whole MiB"),
        ({"declared_memory": {"no device": 1}}, "declared_memory", "is no device"),
        ({"declared_memory": [1]}, "declared_memory", "Write an object"),
        ({"upstream_url": "https://far"}, "upstream_url", "Only the engine upstream"),
        ({"ctx_size": 4096}, "ctx_size", "into its command line"),
        ({"extra_options": "temp = 1"}, "extra_options", "into its command line"),
        ({"extra_options": "priority = most"}, "extra_options", "takes one of"),
        ({"engine": "vllm"}, "engine", "not a valid choice"),
    ],
)
def test_what_a_command_cannot_be_is_told_at_its_field(
    fields: dict[str, Any], field: str, why: str
) -> None:
    assert why in " ".join(faults(command(**fields))[field])


@pytest.mark.parametrize(
    "url",
    ["", "far.example", "ftp://far", "http://", "http://u:p@far", "http://far/?a=1", "http://[::1",
     "http://far:99999", "http://far/a b", "http://169.254.169.254/v1", "http://[fe80::1]/v1",
     "http://0.0.0.0:8000", "http://127.1:8000", "http://2852039166/v1", "http://0xA9FEA9FE",
     "http://0251.0376.0251.0376", "http://169.254.169.254.:80"],
)  # fmt: skip
def test_a_url_that_cannot_be_asked_is_refused(url: str) -> None:
    assert "upstream_url" in faults(upstream(upstream_url=url))


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8000/v1", "http://10.0.0.5", "https://[::1]/v1", "http://0xa.example",
     "http://gpu-2:8000"],
)  # fmt: skip
def test_an_administrator_may_choose_a_private_address(url: str) -> None:
    upstream(upstream_url=url).full_clean()


def test_llamacpps_engines_need_a_model_file() -> None:
    assert "choose one" in faults(Preset(name="a"))["model_file"][0]


def test_policy_may_stand_in_the_extra_options_of_every_engine() -> None:
    assert spec_of(command(extra_options="pinned = false\npriority = normal")).problem == ""


@pytest.mark.parametrize(
    "changes", [{"engine": "upstream"}, {"command_line": "x ${port}"}, {"upstream_key": "k"}]
)
def test_only_who_may_do_everything_may_say_what_runs(changes: dict[str, Any]) -> None:
    saved(command())

    with pytest.raises(ManagementRefused, match="Only superusers and admin keys"):
        editing.change_preset("a", changes, EDITOR)


def python(file: ModelFile, **fields: Any) -> Preset:
    told = {"engine": "llama_cpp_python", "model_file": file, "declared_memory": {"Host": 9}}
    return Preset(**{"name": "p", **told, **fields})


def test_llama_cpp_pythons_server_is_told_what_it_knows(tmp_path: Path) -> None:
    file = make_model_file(tmp_path / "a.gguf")
    fields = {"ctx_size": 512, "n_gpu_layers": "all", "flash_attn": "off", "threads": 2}

    spec = spec_of(python(file, extra_options="chat-format = chatml\nreplicas = 1", **fields))

    argv = described(Preset.objects.get())["argv"]
    assert argv[1:3] == ("-I", str(python_server.PROGRAM))
    assert argv[argv.index("--model") + 1] == file.path
    assert argv[-10:] == (
        "--chat_format", "chatml", "--n_ctx", "512", "--flash_attn", "false",
        "--n_gpu_layers", "-1", "--n_threads", "2",
    )  # fmt: skip
    assert (spec.parallel, spec.engine.health_path, spec.problem) == (1, "/v1/models", "")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"parallel": 2}, "parallel"),
        ({"cache_type_k": "q8_0"}, "cache_type_k"),
        ({"flash_attn": "auto"}, "flash_attn"),
        ({"extra_options": "temp = 1"}, "extra_options"),
        ({"extra_options": "chat-format = --api_key x"}, "extra_options"),
        ({"model_file": None}, "model_file"),
    ],
)
def test_what_llama_cpp_pythons_server_cannot_be_told_is_refused(
    tmp_path: Path, fields: dict[str, Any], field: str
) -> None:
    file = make_model_file(tmp_path / "a.gguf")

    assert field in faults(python(file, **fields))


def test_without_its_extra_llama_cpp_pythons_server_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_server, "NEEDS", ("llama_cpp", "no_such_module"))

    told = faults(python(make_model_file(tmp_path / "a.gguf")))["engine"]

    assert "pip install 'llama-cpp-python[server]'" in told[0]


# Keys -------------------------------------------------------------------------------------


@pytest.fixture
def var(settings: Any, tmp_path: Path) -> Path:
    settings.CORRAL_VAR = tmp_path
    return tmp_path / "secrets"


def with_key(secret: str = "sk-1") -> Preset:
    fields = {"name": "far", "engine": "upstream", "upstream_url": "https://far.example"}
    return editing.create_preset({**fields, "upstream_key": secret}, ADMIN)


def test_a_key_is_kept_in_a_file_and_in_no_row(var: Path) -> None:
    preset = with_key()

    (file,) = var.iterdir()
    assert file.read_text() == "sk-1"
    assert (var.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert kept_secrets.read(preset.upstream_key) == "sk-1"
    assert "sk-1" not in str(Preset.objects.values().get())
    assert "sk-1" not in str(history.records_of(Preset, preset.pk).values())
    assert launch_spec_of(preset).engine.key == preset.upstream_key


@pytest.mark.django_db(transaction=True)
def test_a_key_goes_when_another_one_comes_and_with_its_preset(var: Path) -> None:
    first = with_key()
    fingerprint = launch_spec_of(first).fingerprint

    second = editing.change_preset("far", {"upstream_key": "sk-2"}, ADMIN)
    kept = [file.read_text() for file in var.iterdir()]
    editing.delete_preset("far", ADMIN)

    assert kept == ["sk-2"]
    assert launch_spec_of(second).fingerprint != fingerprint
    assert list(var.iterdir()) == []


@pytest.mark.django_db(transaction=True)
def test_a_clone_has_the_key_and_keeps_it_when_the_original_goes(var: Path) -> None:
    copy = clone(with_key(), "near", reason="a test")

    editing.delete_preset("far", ADMIN)

    assert kept_secrets.read(copy.upstream_key) == "sk-1"


def test_nothing_is_kept_of_a_preset_that_is_refused(var: Path) -> None:
    with pytest.raises(ValidationError):
        editing.create_preset({"name": "far", "engine": "upstream", "upstream_key": "k"}, ADMIN)
    with pytest.raises(ManagementRefused):
        with_key("two words \n")

    assert not var.exists() or list(var.iterdir()) == []


def test_a_preset_whose_key_has_gone_says_so(var: Path) -> None:
    preset = with_key()
    kept_secrets.forget(preset.upstream_key)

    assert "write it again" in launch_spec_of(preset).problem


# The page ---------------------------------------------------------------------------------


def test_the_page_keeps_a_key_and_never_shows_it(admin_client: Client, var: Path) -> None:
    sent: dict[str, Any] = {
        "name": "far", "engine": "upstream", "upstream_url": "https://far.example",
        "new_upstream_key": "sk-page", "priority": "normal", "placement": "best", "replicas": "1",
        "embeddings": "unknown", "load_on_startup": "unknown",
        "aliases-TOTAL_FORMS": 0, "aliases-INITIAL_FORMS": 0,
    }  # fmt: skip
    admin_client.post(reverse("admin:models_registry_preset_add"), sent)
    preset = Preset.objects.get()
    url = reverse("admin:models_registry_preset_change", args=[preset.pk])

    page = admin_client.get(url).content.decode()
    sent |= {"new_upstream_key": "", "forget_upstream_key": "on", "seen_version": preset.version}
    done = admin_client.post(url, sent)
    assert done.status_code == 302, done.context["errors"]

    assert kept_secrets.read(preset.upstream_key) == "sk-page"
    assert "sk-page" not in page
    assert preset.upstream_key not in page
    assert "One is kept" in page
    assert Preset.objects.get().upstream_key == ""


# Remote servers in the pages ------------------------------------------------------------------


@pytest.mark.parametrize("sent", [{"new_upstream_key": "sk-other"}, {"forget_upstream_key": "on"}])
def test_who_may_not_do_everything_neither_sets_nor_forgets_a_key(
    client: Client, var: Path, sent: dict[str, str]
) -> None:
    preset = with_key()
    client.force_login(staff("models_registry.change_preset"))
    url = reverse("admin:models_registry_preset_change", args=[preset.pk])
    form = {
        "name": "far", "upstream_model": "theirs", "priority": "normal", "placement": "best",
        "replicas": "1", "embeddings": "unknown", "load_on_startup": "unknown",
        "seen_version": preset.version, "aliases-TOTAL_FORMS": 0, "aliases-INITIAL_FORMS": 0,
    }  # fmt: skip
    done = client.post(url, form | sent)
    assert done.status_code == 302, done.context["errors"]

    kept = Preset.objects.get()
    assert kept.upstream_model == "theirs"
    assert kept_secrets.read(kept.upstream_key) == kept_secrets.read(preset.upstream_key) != ""


def test_the_page_of_a_remote_offers_nothing_that_only_a_child_can_do(
    admin_client: Client, var: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = saved(upstream())
    failed = PresetStatus("remote", leases=2, failure="upstream_unavailable: nobody listens there")
    use_scheduler(monkeypatch, FakeScheduler({"far": failed}))

    page = admin_client.get(reverse("admin:models_registry_preset_change", args=[far.pk]))
    text = page.content.decode()

    assert "remote, 2 answering" in text
    assert "nobody listens there" in text
    assert "takes none of this machine" in text
    for verb in ("load", "unload", "pin", "measure"):
        assert reverse(f"admin:models_registry_preset_{verb}", args=[far.pk]) not in text


def test_what_a_remote_would_take_is_nothing(monkeypatch: pytest.MonkeyPatch, var: Path) -> None:
    asker = use_scheduler(monkeypatch, FakeScheduler())
    far = saved(upstream())

    for told in (fitting.fit_of(far), fitting.fit_edited(upstream(name="new"))):
        assert "takes no memory of this machine" in told.now.problem
        assert told.empty == told.now
    assert not [asked for asked in asker.asked if asked[0].startswith("fit")]


def test_the_page_of_a_command_tells_what_is_declared_and_offers_no_measuring(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scheduler(monkeypatch, FakeScheduler())
    preset = saved(command())

    answer = admin_client.get(reverse("admin:models_registry_preset_change", args=[preset.pk]))
    page = answer.content.decode()
    listed = admin_client.get(reverse("admin:models_registry_preset_changelist"))

    assert answer.status_code == 200
    assert "Declared: 100 MiB on Host." in page
    assert f"/{preset.pk}/load/" in page
    assert f"/{preset.pk}/measure/" not in page
    assert "--port ${port}" in page
    assert "the ledger adds" not in page
    assert listed.status_code == 200


def test_it_is_exported_with_a_word_on_what_llama_cpp_cannot_run() -> None:
    saved(command(parallel=2))

    text = export_ini()

    assert "# llama.cpp cannot run it: its engine is command" in text
    assert "its command line" in text
    assert "its declared memory" in text


def test_presets_without_a_file_stand_in_nobodys_way(tmp_path: Path) -> None:
    saved(command())
    alias = {"name": "b", "preset": "a"}
    editing.create_alias(**alias, asker=ADMIN)
    for name in ("a", "b", "c"):
        gguf(tmp_path / f"{name}.gguf")

    report = rescan(Places(models_dir=tmp_path))

    assert report.added == ["c"]
    assert len(report.conflicts) == 2
    assert Preset.objects.get(name="a").model_file is None
    with pytest.raises(NotRegistered, match="another file"):
        register_model(tmp_path / "c.gguf", "a")
    assert some_model("") == "a"
    assert {spec.preset: spec.problem for spec in launch_specs()} == {"a": "", "c": ""}
