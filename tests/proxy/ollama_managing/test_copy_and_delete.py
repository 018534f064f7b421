"""Models are copied and deleted: what goes with them, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from models_registry.downloads import asking
from models_registry.models import Alias, ModelFile, Preset
from tests.django.registry_rows import (
    gguf,
    make_model_file,
    make_preset,
)

from .changing import asked, is_there

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_copy_has_all_options_of_its_source(house, admin) -> None:
    await Preset.objects.filter(name="base").aupdate(ctx_size=1234)

    exchange = await asked(
        house, "/api/copy", {"source": "base:latest", "destination": "twin"}, headers=admin
    )

    assert (exchange.status, exchange.body) == (200, b"")
    assert (await Preset.objects.aget(name="twin")).ctx_size == 1234


@pytest.mark.parametrize(
    ("source", "destination", "status", "told"),
    [
        ("nobody", "x", 404, "model 'nobody' not found"),
        ("base", "base:latest", 409, "is there already"),
        ("base", "", 400, "model is required"),
        ("base", "a\tb", 400, "invalid model name"),
    ],
)
async def test_a_copy_that_cannot_be_is_refused(
    house, admin, source: str, destination: str, status: int, told: str
) -> None:
    exchange = await asked(
        house, "/api/copy", {"source": source, "destination": destination}, headers=admin
    )

    assert exchange.status == status
    assert told in exchange.json["error"]
    assert await Preset.objects.acount() == 1


async def test_a_model_that_people_made_goes_and_its_file_stays(
    house, admin, tmp_path: Path
) -> None:
    exchange = await asked(house, "/api/delete", {"model": "base"}, method="DELETE", headers=admin)

    assert (exchange.status, exchange.body) == (200, b"")
    assert not await Preset.objects.aexists()
    assert is_there(tmp_path / "base.gguf")


async def test_a_model_that_was_fetched_goes_with_its_file(house, admin, tmp_path: Path) -> None:
    path = gguf(tmp_path / "var" / "models" / "ollama" / "sha256-1.gguf")

    def there() -> None:
        file = ModelFile.objects.create(path=str(path), source="download")
        make_preset("tiny:latest", file, source="download")

    await sync_to_async(there)()

    exchange = await asked(house, "/api/delete", {"name": "tiny"}, method="DELETE", headers=admin)

    assert exchange.status == 200
    assert not is_there(path)


async def test_an_alias_goes_alone_and_a_download_is_cancelled(house, admin) -> None:
    base = await Preset.objects.aget(name="base")
    await Alias.objects.acreate(name="other", preset=base)
    row = await sync_to_async(asking.create)("ollama", "coming", asked_by="somebody")

    for name in ("other", "coming"):
        answer = await asked(house, "/api/delete", {"model": name}, method="DELETE", headers=admin)
        assert answer.status == 200

    assert not await Alias.objects.aexists()
    assert await Preset.objects.acount() == 1
    await row.arefresh_from_db()
    assert row.state == "cancelled"


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        ("nobody", 404, "model 'nobody' not found"),
        ("found", 409, "would come back: it is from Ollama's store"),
        ("base", 409, "It is the base of heir"),
        ("", 400, "model is required"),
    ],
)
async def test_what_cannot_be_deleted_says_why(
    house, admin, tmp_path: Path, name: str, status: int, told: str
) -> None:
    def there() -> None:
        file = make_model_file(tmp_path / "found.gguf")
        make_preset("found", file, source="ollama")
        base = Preset.objects.get(name="base")
        make_preset("heir", file, base=base)

    await sync_to_async(there)()

    exchange = await asked(house, "/api/delete", {"model": name}, method="DELETE", headers=admin)

    assert exchange.status == status
    assert told in exchange.json["error"]
    assert await Preset.objects.acount() == 3
