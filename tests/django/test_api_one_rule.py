"""One rule, three doors: what the row's own check refuses, the admin's form and the management API
refuse as well, at the same field and in the same words."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from models_registry.models import Alias, ModelFile, Preset

from .management import Manager
from .registry_rows import make_preset

pytestmark = pytest.mark.django_db

PRESETS = [
    ("name", "a,b"),
    ("name", "a//b"),
    ("name", "a/load"),
    ("name", "taken"),
    ("name", "an-alias"),
    ("n_gpu_layers", "some"),
    ("ctx_size", 20_000_000),
    ("parallel", 257),
    ("cache_type_k", "q99"),
    ("cache_type_v", "q99"),
    ("extra_options", "top-k"),
    ("extra_options", "host = 0.0.0.0"),
    ("extra_options", "ctx-size = 5"),
    ("extra_options", "top-k = 1\ntop-k = 2"),
    ("extra_options", "no-such-option = 1"),
    ("extra_options", "top-k = many"),
    ("extra_options", "tensor-split = 1,b"),
    ("extra_options", "flash-attn = off\ncache-type-v = q8_0"),
    ("min_residency", 30.5),
    ("keep_alive", -0.5),
    ("extra_options", "batch-size = 8\nubatch-size = 16"),
]
ALIASES = [("name", "taken"), ("name", "a,b"), ("name", "an-alias"), ("name", "a/..")]
FILES = [("path", "relative"), ("path", "/no/such.gguf"), ("path", "/"), ("mmproj", "/no/such")]


def said_by_the_row(row: Any, field: str) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        row.full_clean()
    return refused.value.message_dict[field]


def said_by_the_form(client: Client, model: str, data: dict[str, Any], field: str) -> list[str]:
    response = client.post(reverse(f"admin:models_registry_{model}_add"), data)
    assert response.status_code == 200, "it was saved"
    return [unescape(words) for words in response.context["adminform"].form.errors[field]]


def said_by_the_api(manager: Manager, path: str, body: dict[str, Any], field: str) -> str:
    answer = manager.post(path, body)
    assert (answer.status, answer.code, answer.param) == (422, "validation_failed", field)
    return answer.message


@pytest.fixture
def taken(preset: Preset) -> Preset:
    make_preset("taken", preset.model_file)
    Alias.objects.create(name="an-alias", preset=preset)
    return preset


@pytest.mark.parametrize(("field", "value"), PRESETS)
def test_a_presets_rule_holds_at_every_door(admin_client, manager, taken, field, value):
    fields = {"name": "new", "ctx_size": 8, field: value}
    expected = said_by_the_row(Preset(model_file=taken.model_file, **fields), field)
    inline = {"aliases-TOTAL_FORMS": 0, "aliases-INITIAL_FORMS": 0}
    data = {**fields, **inline, "model_file": taken.model_file.pk}

    assert said_by_the_form(admin_client, "preset", data, field) == expected
    told = said_by_the_api(manager, "/presets", fields | {"model_file": taken.model_file.pk}, field)
    assert all(f"{field}: {words}" in told for words in expected)
    assert Preset.objects.count() == 2


@pytest.mark.parametrize(("field", "value"), ALIASES)
def test_an_aliass_rule_holds_at_every_door(admin_client, manager, taken, field, value):
    expected = said_by_the_row(Alias(preset=taken, name=value), field)

    assert (
        said_by_the_form(admin_client, "alias", {"name": value, "preset": taken.pk}, field)
        == expected
    )
    told = said_by_the_api(manager, "/aliases", {"name": value, "preset": taken.name}, field)
    assert all(words in told for words in expected)
    assert Alias.objects.count() == 1


@pytest.mark.parametrize(("field", "value"), FILES)
def test_a_model_files_rule_holds_at_every_door(
    admin_client, manager, taken, tmp_path, field, value
):
    good = tmp_path / "good.gguf"
    good.write_bytes(b"GGUF")
    fields = {"path": str(good), field: value}
    expected = said_by_the_row(ModelFile(**fields), field)

    assert said_by_the_form(admin_client, "modelfile", fields, field) == expected
    told = said_by_the_api(manager, "/models", fields, field)
    assert all(words in told for words in expected)
    assert ModelFile.objects.count() == 1


def test_options_too_long_are_refused_at_every_door(admin_client, manager, taken):
    fields = {"name": "new", "extra_options": "# " + "x" * (64 << 10)}
    body = fields | {"model_file": taken.model_file.pk}
    data = body | {"aliases-TOTAL_FORMS": 0, "aliases-INITIAL_FORMS": 0}
    row = Preset(model_file=taken.model_file, **fields)

    assert said_by_the_row(row, "extra_options")
    assert said_by_the_form(admin_client, "preset", data, "extra_options")
    assert said_by_the_api(manager, "/presets", body, "extra_options")
