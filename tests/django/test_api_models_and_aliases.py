"""Model files and aliases, as programs find, add and forget them."""

from __future__ import annotations

from pathlib import Path

import pytest

from models_registry.models import Alias, FileMetadata, ModelFile, Preset

from .registry_rows import gguf, make_preset

pytestmark = pytest.mark.django_db


def test_a_file_is_added_by_its_path(manager, tmp_path):
    path = str(gguf(tmp_path / "new.gguf", size=100))

    added = manager.post("/models", {"path": path})

    assert added.status == 201
    assert (added.json["path"], added.json["size"], added.json["source"]) == (path, 100, "admin")
    assert added.json == manager.get(f"/models/{added.json['id']}").json


def test_a_file_that_is_there_already_is_refused(manager, preset):
    answer = manager.post("/models", {"path": preset.model_file.path})

    assert (answer.status, answer.param) == (422, "path")


def test_a_projector_must_be_readable_too(manager, tmp_path):
    path = str(gguf(tmp_path / "new.gguf"))

    assert manager.post("/models", {"path": path, "mmproj": "/no/such"}).param == "mmproj"
    assert not ModelFile.objects.exists()


def test_a_file_that_presets_run_is_not_forgotten_by_the_way(manager, preset):
    path = f"/models/{preset.model_file.pk}"

    refused = manager.delete(path)

    assert (refused.status, refused.code) == (409, "conflict")
    assert "user/repo:Q4_K_M" in refused.message
    assert Preset.objects.exists()
    assert manager.delete(f"{path}?cascade=true").status == 204
    assert not Preset.objects.exists()


def test_forgetting_a_file_leaves_it_on_disk(manager, preset):
    file = preset.model_file

    manager.delete(f"/models/{file.pk}?cascade=true")

    assert not ModelFile.objects.exists()
    assert Path(file.path).exists()


@pytest.mark.parametrize("id", ["0", "7", "9" * 30])
def test_a_file_that_is_not_there_is_not_found(manager, id):
    for ask in (manager.get, manager.delete):
        assert (ask(f"/models/{id}").status, ask(f"/models/{id}").code) == (404, "not_found")


def test_an_alias_is_made_turned_renamed_and_deleted(manager, preset):
    make_preset("other", preset.model_file)

    made = manager.post("/aliases", {"name": "a/b:c", "preset": preset.name})
    turned = manager.patch("/aliases/a/b:c", {"preset": "other"})
    renamed = manager.patch("/aliases/a/b:c", {"name": "d"})

    assert (made.status, made.json["preset"]) == (201, preset.name)
    assert (turned.json["name"], turned.json["preset"]) == ("a/b:c", "other")
    assert (renamed.json["name"], renamed.json["preset"]) == ("d", "other")
    assert [row["name"] for row in manager.get("/aliases").json["items"]] == ["d"]
    assert manager.get("/aliases/d").json == renamed.json
    assert manager.delete("/aliases/d").status == 204
    assert (manager.get("/aliases/d").status, manager.delete("/aliases/d").status) == (404, 404)


def test_a_pattern_and_the_default_are_aliases_like_others(manager, preset):
    for name in ("gpt-4o*", "user/*", "*"):
        assert manager.post("/aliases", {"name": name, "preset": preset.name}).status == 201
        assert manager.get(f"/aliases/{name}").json["name"] == name

    turned = manager.patch("/aliases/gpt-4o*", {"request_set": {"top_k": 1}})

    assert turned.json["request_set"] == {"top_k": 1}
    assert manager.delete("/aliases/*").status == 204
    assert manager.get(f"/presets/{preset.name}").json["aliases"] == ["gpt-4o*", "user/*"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "gpt*o", "preset": "user/repo:Q4_K_M"}, "name"),
        ({"name": "gpt**", "preset": "user/repo:Q4_K_M"}, "name"),
        ({"name": "user/repo:Q4_K_M", "preset": "user/repo:Q4_K_M"}, "name"),
        ({"name": "taken", "preset": "user/repo:Q4_K_M"}, "name"),
        ({"name": "a,b", "preset": "user/repo:Q4_K_M"}, "name"),
        ({"name": "a", "preset": "nobody"}, "preset"),
        ({"name": "a", "preset": 1}, "preset"),
        ({"name": "a"}, "preset"),
    ],
)
def test_an_alias_that_cannot_be_is_refused_at_its_field(manager, preset, body, field):
    Alias.objects.create(name="taken", preset=preset)

    answer = manager.post("/aliases", body)

    assert (answer.status, answer.code, answer.param) == (422, "validation_failed", field)
    assert Alias.objects.count() == 1


def test_a_file_tells_what_its_header_says(manager, preset):
    path = f"/models/{preset.model_file.pk}"
    assert manager.get(path).json["header"] is None
    FileMetadata.objects.create(
        model_file=preset.model_file,
        stamp="seen",
        architecture="qwen3",
        parameters=7,
        licence="mit",
    )

    header = manager.get(path).json["header"]

    assert (header["architecture"], header["parameters"], header["layers"]) == ("qwen3", 7, None)


@pytest.mark.parametrize(
    ("query", "found"),
    [("architecture=qwen3", 1), ("architecture=llama", 0), ("search=OURS", 1), ("search=no", 0),
     ("licence=mit&quantisation=Q8_0", 1), ("licence=mit&quantisation=Q4_0", 0)],
)  # fmt: skip
def test_files_are_found_by_their_headers(manager, preset, query, found):
    FileMetadata.objects.create(
        model_file=preset.model_file, stamp="seen", architecture="qwen3", licence="mit",
        quantisation="Q8_0", name="one of ours",
    )  # fmt: skip

    assert manager.get(f"/models?{query}").json["count"] == found
