"""Rules at the fields, through the admin's own forms."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from models_registry.models import Alias, ModelFile, Preset
from models_registry.validation import file_problem

from .registry_rows import (
    FakeScheduler,
    gguf,
    make_model_file,
    make_preset,
    use_scheduler,
    use_stand_in_engine,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _engine(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    use_scheduler(monkeypatch, FakeScheduler())


@pytest.fixture
def model_file(tmp_path: Path) -> ModelFile:
    return make_model_file(tmp_path / "a.gguf")


def form(model_file: ModelFile, name: str = "a", **fields: Any) -> dict[str, Any]:
    """What a browser sends for a preset with one empty row of aliases."""
    return {
        "name": name,
        "model_file": model_file.pk,
        "extra_options": "",
        "priority": "normal",
        "engine": "llama_server",
        "placement": "best",
        "replicas": 1,
        "seen_version": 1,
        "aliases-TOTAL_FORMS": 1,
        "aliases-INITIAL_FORMS": 0,
        "aliases-0-name": "",
        **fields,
    }


def errors_of(client: Client, data: dict[str, Any], pk: int | None = None) -> dict[str, list[str]]:
    """Field errors of the page that comes back; empty when it was saved."""
    url = (
        reverse("admin:models_registry_preset_change", args=[pk])
        if pk
        else reverse("admin:models_registry_preset_add")
    )
    response = client.post(url, data)
    if response.status_code == 302:
        return {}
    page = response.context["adminform"].form
    inline = response.context["inline_admin_formsets"][0].formset
    found = dict(page.errors)
    for number, row in enumerate(inline.errors):
        found |= {f"aliases-{number}-{field}": told for field, told in row.items()}
    if inline.non_form_errors():
        found["aliases"] = inline.non_form_errors()
    return found


def test_a_good_preset_is_saved_with_its_alias(admin_client: Client, model_file: ModelFile) -> None:
    data = form(
        model_file,
        "user/repo:Q4_K_M",
        ctx_size="4096",
        n_gpu_layers="auto",
        flash_attn="on",
        cache_type_k="q8_0",
        embeddings="true",
        extra_options="temp = 0.5\n# a remark\nno-warmup = true",
        **{"aliases-0-name": "chat"},
    )

    assert errors_of(admin_client, data) == {}

    preset = Preset.objects.get()
    assert (preset.name, preset.ctx_size, preset.embeddings) == ("user/repo:Q4_K_M", 4096, True)
    assert preset.threads is None
    assert Alias.objects.get().preset == preset


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("host = 0.0.0.0", "refused because it would let the child listen elsewhere"),
        ("LLAMA_ARG_HOST = 0.0.0.0", "refused because it would let the child listen elsewhere"),
        ("chat-template-file = /etc/passwd", "refused because it would let the child read"),
        ("tools = all", "refused because it would let the child run tools"),
        ("alias = x", "refused because it is set by Corral"),
        ("m = /etc/passwd", "refused because it has a field of its own"),
        ("stop-timeout = 3", "set the preset&#x27;s own field: Stop timeout"),
        ("keep-alive = 300", "set the preset&#x27;s own field: Keep alive"),
        ("load-on-startup = 1", "set the preset&#x27;s own field: Load on startup"),
        ("temprature = 1", "did you mean temperature?"),
        ("--host 0.0.0.0", "--host: refused because it would let the child listen"),
        ("parallel = 0", "from 1 to 256"),
        ("parallel = 2147483647", "from 1 to 256"),
        ("temp = hot", "takes a number"),
        ("tensor-split = abc", "tensor-split: takes up to 16 numbers"),
        ("tensor-split = " + ",".join(["1"] * 17), "takes up to 16 numbers"),
        ("tensor-split = 3,,1", "takes up to 16 numbers"),
        ("main-gpu = -2", "from -1 to 255"),
        ("cpu-mask = zz", "cpu-mask: takes a mask in hexadecimal digits"),
        ("cpu-range-batch = 0..3", "takes a range of CPUs"),
        ("temp =", "has no value"),
        ("no-warmup", "is not `key = value`"),
        ("np = 0x10", "takes a whole number"),
        ("ctx-size = 16", "the field for ctx-size is set as well"),
        ("top-k = 1\ntop_k = 2", "top-k is set in an earlier line"),
        ("spec-ngram-min-hits = 1", "has been removed"),
        ("<img src=x onerror=alert(1)> = 1", "&lt;img"),
    ],
)
def test_a_bad_line_is_refused_at_its_field_with_its_name(
    admin_client: Client, model_file: ModelFile, line: str, words: str
) -> None:
    data = form(model_file, ctx_size="4096", extra_options=line)

    found = errors_of(admin_client, data)

    assert list(found) == ["extra_options"]
    assert words in str(found["extra_options"])
    assert "line " in str(found["extra_options"])
    assert Preset.objects.count() == 0


def test_every_bad_line_is_told_at_once(admin_client: Client, model_file: ModelFile) -> None:
    data = form(model_file, extra_options="host = 1\ntemp = 1\nport = 2", cache_type_k="f17")

    found = errors_of(admin_client, data)

    assert len(found["extra_options"]) == 2
    assert "takes one of f32" in str(found["cache_type_k"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "../a"),
        ("name", "-a"),
        ("name", "a,b"),
        ("parallel", "0"),
        ("threads", "-1"),
        ("ctx_size", "99999999999"),
        ("n_gpu_layers", "most"),
        ("n_gpu_layers", "\uff14"),
        ("flash_attn", "maybe"),
        ("stop_timeout", "-1"),
    ],
)
def test_a_bad_value_is_refused_at_its_field(
    admin_client: Client, model_file: ModelFile, field: str, value: str
) -> None:
    found = errors_of(admin_client, form(model_file, **{field: value}))

    assert list(found) == [field]


def test_a_preset_cannot_have_the_name_of_an_alias(
    admin_client: Client, model_file: ModelFile
) -> None:
    Alias.objects.create(name="taken", preset=make_preset("a", model_file))

    assert list(errors_of(admin_client, form(model_file, "taken"))) == ["name"]


def test_an_alias_cannot_have_the_name_of_a_preset(
    admin_client: Client, model_file: ModelFile
) -> None:
    make_preset("taken", model_file)

    found = errors_of(admin_client, form(model_file, "b", **{"aliases-0-name": "taken"}))

    assert list(found) == ["aliases-0-name"]


@pytest.mark.parametrize("name", ["b", "../x"])
def test_an_alias_in_the_same_form_is_checked_against_the_new_name(
    admin_client: Client, model_file: ModelFile, name: str
) -> None:
    preset = make_preset("a", model_file)

    found = errors_of(admin_client, form(model_file, "b", **{"aliases-0-name": name}), pk=preset.pk)

    assert found != {}
    assert Preset.objects.get().name == "a"


def test_a_rename_keeps_the_old_name_as_an_alias(
    admin_client: Client, model_file: ModelFile
) -> None:
    preset = make_preset("old", model_file)

    assert errors_of(admin_client, form(model_file, "new"), pk=preset.pk) == {}

    assert Preset.objects.get().name == "new"
    assert Alias.objects.get().name == "old"


def test_without_an_engine_extra_options_are_not_taken_unchecked(
    admin_client: Client, model_file: ModelFile, settings: Any
) -> None:
    settings.CORRAL_LLAMA_SERVER = "/nowhere/llama-server"

    found = errors_of(admin_client, form(model_file, extra_options="temp = 1"))
    saved = errors_of(admin_client, form(model_file, ctx_size="4096"))

    assert "CORRAL_LLAMA_SERVER" in str(found["extra_options"])
    assert saved == {}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("relative.gguf", "absolute path"),
        ("/nowhere/a.gguf", "cannot be read"),
        ("/dev/null", "not a file"),
        ("/models/a\tb", "control characters"),
        ("/etc/passwd", "no GGUF"),
        ("/etc", "not a file"),
    ],
)
def test_a_model_file_must_be_a_readable_file(admin_client: Client, path: str, words: str) -> None:
    url = reverse("admin:models_registry_modelfile_add")

    response = admin_client.post(url, {"path": path, "mmproj": ""})

    assert words in str(response.context["adminform"].form.errors["path"])


def test_a_pipe_is_refused_without_waiting_for_who_writes_into_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.gguf")

    assert "not a file" in file_problem(str(tmp_path / "a.gguf"))


def test_a_projector_must_be_a_gguf_too(admin_client: Client, tmp_path: Path) -> None:
    url = reverse("admin:models_registry_modelfile_add")
    file = gguf(tmp_path / "b.gguf")

    response = admin_client.post(url, {"path": str(file), "mmproj": "/etc/passwd"})

    assert "no GGUF" in str(response.context["adminform"].form.errors["mmproj"])


def test_a_row_whose_file_is_gone_for_now_can_be_edited(
    admin_client: Client, tmp_path: Path
) -> None:
    row = ModelFile.objects.create(path=str(tmp_path / "gone.gguf"))
    projector = gguf(tmp_path / "mmproj.gguf")
    url = reverse("admin:models_registry_modelfile_change", args=[row.pk])

    response = admin_client.post(url, {"path": row.path, "mmproj": str(projector)})

    assert response.status_code == 302
    assert ModelFile.objects.get().mmproj == str(projector)


def test_a_model_file_added_by_hand_knows_its_size(admin_client: Client, tmp_path: Path) -> None:
    file = gguf(tmp_path / "b.gguf", size=99)
    url = reverse("admin:models_registry_modelfile_add")

    response = admin_client.post(url, {"path": str(file), "mmproj": ""})

    assert response.status_code == 302
    assert ModelFile.objects.get(path=str(file)).size == 99


@pytest.mark.parametrize("line", ["--temp 0.5", "--temp = 0.5", "--temp=0.5", "temp = 0.5"])
def test_an_option_may_be_written_as_on_a_command_line(
    admin_client: Client, model_file: ModelFile, line: str
) -> None:
    assert errors_of(admin_client, form(model_file, extra_options=line)) == {}


def test_a_question_at_the_end_of_an_error_keeps_its_mark(
    admin_client: Client, model_file: ModelFile
) -> None:
    found = errors_of(admin_client, form(model_file, extra_options="temprature = 1"))

    assert "?." not in str(found)


def test_more_slots_than_anybody_means_are_refused_at_their_field(
    admin_client: Client, model_file: ModelFile
) -> None:
    found = errors_of(admin_client, form(model_file, parallel="100000"))

    assert "from 1 to 256" in str(found["parallel"])


@pytest.mark.parametrize("size", ["16777217", "2147483647"])
def test_a_context_longer_than_any_models_is_refused_at_its_field(
    admin_client: Client, model_file: ModelFile, size: str
) -> None:
    found = errors_of(admin_client, form(model_file, ctx_size=size))

    assert list(found) == ["ctx_size"]
    assert "from 2 to 16777216, or 0" in str(found["ctx_size"])


TOGETHER = [
    ({"flash_attn": "off", "cache_type_v": "q8_0"}, "cache_type_v", "q8_0 needs flash attention"),
    (
        {"flash_attn": "off", "extra_options": "ctv = q4_0", "cache_type_v": ""},
        "extra_options",
        "flash-attn is off",
    ),
    (
        {"cache_type_v": "q5_1", "extra_options": "flash-attn = 0"},
        "cache_type_v",
        "flash-attn is off",
    ),
    ({"batch_size": "256", "ubatch_size": "512"}, "ubatch_size", "more than batch-size, 256"),
    (
        {"batch_size": "256", "extra_options": "ub = 512"},
        "extra_options",
        "ubatch-size: 512 is more than batch-size, 256",
    ),
]


@pytest.mark.parametrize(("fields", "at", "words"), TOGETHER)
def test_values_that_do_not_go_together_are_refused_with_both_names(
    admin_client: Client, model_file: ModelFile, fields: dict[str, str], at: str, words: str
) -> None:
    found = errors_of(admin_client, form(model_file, **fields))

    assert list(found) == [at]
    assert words in str(found[at])


@pytest.mark.parametrize(
    "fields",
    [
        {"flash_attn": "off", "cache_type_k": "q8_0", "cache_type_v": "bf16"},
        {"flash_attn": "auto", "cache_type_v": "q8_0"},
        {"batch_size": "512", "ubatch_size": "512"},
        {"ctx_size": "16777216"},
        {"extra_options": "tensor-split = 3,1.5/0\nmain-gpu = -1\ncpu-mask = 0xFf\ncpu-range = 0-"},
    ],
)
def test_values_that_the_engine_takes_together_are_saved(
    admin_client: Client, model_file: ModelFile, fields: dict[str, str]
) -> None:
    assert errors_of(admin_client, form(model_file, **fields)) == {}


def test_a_value_that_is_wrong_by_itself_is_told_once(
    admin_client: Client, model_file: ModelFile
) -> None:
    found = errors_of(
        admin_client,
        form(model_file, batch_size="0", ubatch_size="x", flash_attn="off", cache_type_v="f17"),
    )

    assert sorted(found) == ["batch_size", "cache_type_v", "ubatch_size"]
    assert len(found["cache_type_v"]) == 1
