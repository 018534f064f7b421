"""Models are made of others, with parameters of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from models_registry.models import Alias, ModelFile, Preset
from tests.django.registry_rows import (
    make_model_file,
    make_preset,
)

from .changing import AWAY, asked, statuses

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_model_is_made_of_another_with_parameters_of_its_own(house, admin) -> None:
    parameters = {"temperature": 0.2, "num_ctx": 4096, "stop": ["a", "b"], "tfs_z": 1}
    wish = {"model": "brief", "from": "base", "parameters": parameters, "template": "{{ .P }}"}
    wish["system"] = "Be brief."

    exchange = await asked(house, "/api/create", wish, headers=admin)

    said = statuses(exchange)
    assert said[-2:] == ["writing manifest", "success"]
    assert any("TEMPLATE is not taken" in each for each in said)
    assert any("tfs_z" in each for each in said)
    made = await Preset.objects.select_related("base", "model_file").aget(name="brief")
    assert made.base is not None
    assert made.base.name == "base"
    assert made.model_file == await ModelFile.objects.aget()
    assert made.ctx_size == 4096
    assert made.request_defaults == {
        "temperature": 0.2,
        "stop": ["a", "b"],
        "system": "Be brief.",
    }


async def test_a_model_that_is_made_again_is_another_one(house, admin) -> None:
    first = {"model": "brief", "from": "base", "parameters": {"num_ctx": 4096, "seed": 1}}
    await asked(house, "/api/create", first, headers=admin)
    second = {"model": "brief:latest", "from": "base", "parameters": {"seed": 2}, "stream": False}

    exchange = await asked(house, "/api/create", second, headers=admin)

    assert exchange.json == {"status": "success"}
    made = await Preset.objects.aget(name="brief")
    assert (made.ctx_size, made.request_defaults) == (None, {"seed": 2})


async def test_a_model_made_of_itself_keeps_what_is_not_named(house, admin) -> None:
    wish = {"model": "base", "from": "base", "parameters": {"num_ctx": 2048}}

    exchange = await asked(house, "/api/create", wish, headers=admin)

    assert exchange.status == 200
    made = await Preset.objects.aget(name="base")
    assert (made.ctx_size, made.base_id) == (2048, None)


@pytest.mark.parametrize(
    ("wish", "status", "told"),
    [
        ({}, 400, "model is required"),
        ({"model": "x"}, 400, "neither 'from' or 'files' was specified"),
        ({"model": "x", "from": "y"}, 404, "model 'y' not found"),
        ({"model": "", "from": "base"}, 400, "model is required"),
        ({"model": "a\nb", "from": "base"}, 400, "invalid model name"),
        ({"model": "x", "from": "base", "adapters": {"a": AWAY}}, 400, "LoRA"),
        ({"model": "x", "from": "base", "quantize": "q4_K_M"}, 400, "not quantised here"),
        ({"model": "x", "from": "base", "messages": [{"role": "user"}]}, 400, "conversation"),
        ({"model": "x", "modelfile": "FROM base"}, 400, "import_modelfile"),
        ({"model": "x", "from": 7}, 400, "not as Ollama has it"),
        ({"model": "x", "files": {"m.gguf": AWAY}}, 400, "no blob"),
        ({"model": "x", "files": {"m.gguf": "md5:1"}}, 400, "invalid digest"),
        ({"model": "fetched", "from": "base"}, 409, "is there already"),
        ({"model": "other", "from": "base"}, 409, "an alias of 'base'"),
        ({"model": "x", "from": "base", "license": "x" * (1 << 20)}, 413, "larger than"),
    ],
)
async def test_what_cannot_be_made_is_refused_and_nothing_is(
    house, admin, tmp_path: Path, wish: dict[str, Any], status: int, told: str
) -> None:
    def there() -> None:
        file = make_model_file(tmp_path / "fetched.gguf")
        make_preset("fetched", file, source="cache")
        Alias.objects.create(name="other", preset=Preset.objects.get(name="base"))

    await sync_to_async(there)()

    exchange = await asked(house, "/api/create", wish, headers=admin)

    assert exchange.status == status
    assert told in exchange.json["error"]
    assert await Preset.objects.acount() == 2
