"""Presets, as programs find, make, change and delete them."""

from __future__ import annotations

import pytest

from models_registry.models import Alias, Preset
from models_registry.revision import registry_revision

from .management import Manager, admin_key
from .registry_rows import make_model_file, make_preset

pytestmark = pytest.mark.django_db

NAMES = [
    "user/repo:Q4_K_M",
    "org/sub/model",
    "a+b",
    "My Model",
    "gpt-4o@2024-05",
    "load",
    "effective",
    "7b",
    "x" * 200,
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("encoded", [False, True])
def test_every_name_is_reached_by_its_path(manager, tmp_path, name, encoded):
    row = make_preset(name, make_model_file(tmp_path / "a.gguf"))
    path = name.replace(" ", "%20")
    if encoded:
        path = path.replace("/", "%2F").replace(":", "%3A").replace("+", "%2B")

    assert manager.get(f"/presets/{path}").json["id"] == row.pk
    assert manager.get(f"/presets/{path}/effective").json["preset"] == name
    assert manager.post(f"/presets/{path}/load").json == {"preset": name, "state": "queued"}
    assert manager.patch(f"/presets/{path}", {"ctx_size": 8}).json["ctx_size"] == 8
    assert manager.delete(f"/presets/{path}").status == 204


@pytest.mark.parametrize("ending", ["load", "unload", "pin", "unpin", "apply", "effective", "fit"])
def test_a_name_that_would_hide_an_action_is_refused(manager, preset, ending):
    answer = manager.post("/presets", {"name": f"a/{ending}", "model_file": preset.model_file.pk})

    assert (answer.status, answer.param) == (422, "name")


def test_a_new_preset_has_what_was_said_and_nothing_else(manager, preset):
    body = {
        "name": "tiny",
        "model_file": preset.model_file.pk,
        "ctx_size": 2048,
        "n_gpu_layers": "all",
        "flash_attn": "on",
        "embeddings": False,
        "extra_options": "top-k = 40",
        "pinned": True,
        "stop_timeout": 2.5,
    }
    made = manager.post("/presets", body)

    assert made.status == 201
    assert {key: made.json[key] for key in body} == body
    assert (made.json["parallel"], made.json["source"]) == (None, "admin")
    assert made.json == manager.get("/presets/tiny").json


def test_only_what_a_patch_names_is_changed(manager, preset):
    before = manager.get(f"/presets/{preset.name}").json

    after = manager.patch(f"/presets/{preset.name}", {"parallel": 2}).json

    assert after.pop("parallel") == 2
    assert after.pop("version") == before.pop("version") + 1
    del before["parallel"]
    assert after == before


def test_null_unsets_an_option(manager, preset):
    assert manager.patch(f"/presets/{preset.name}", {"ctx_size": None}).json["ctx_size"] is None


@pytest.mark.parametrize("field", ["name", "model_file", "extra_options", "pinned"])
def test_null_is_refused_where_nothing_can_be_unset(manager, preset, field):
    answer = manager.patch(f"/presets/{preset.name}", {field: None})

    assert (answer.status, answer.param) == (422, field)


def test_a_patch_of_an_older_version_is_refused_and_told_what_was_done(manager, preset):
    seen = manager.get(f"/presets/{preset.name}").json["version"]
    manager.patch(f"/presets/{preset.name}", {"parallel": 2, "version": seen})

    late = manager.patch(f"/presets/{preset.name}", {"parallel": 3, "version": seen})

    assert (late.status, late.code, late.param) == (409, "conflict", "version")
    assert "the admin key robot" in late.message
    assert "slots from unset to 2" in late.message
    assert Preset.objects.get().parallel == 2


@pytest.mark.parametrize("version", [-1, 0, 999, 2**80])
def test_a_version_that_never_was_is_refused(manager, preset, version):
    answer = manager.patch(f"/presets/{preset.name}", {"parallel": 3, "version": version})

    assert (answer.status, answer.code) == (409, "conflict")


def test_a_renamed_preset_keeps_its_old_name_as_an_alias(manager, preset):
    renamed = manager.patch(f"/presets/{preset.name}", {"name": "short"})

    assert renamed.json["aliases"] == ["user/repo:Q4_K_M"]
    told = manager.get("/presets/user/repo:Q4_K_M")
    assert (told.status, told.code) == (404, "model_not_found")
    assert "'short'" in told.message


def test_a_rename_that_fails_changes_nothing(manager, preset):
    make_preset("taken", preset.model_file)

    answer = manager.patch(f"/presets/{preset.name}", {"name": "taken", "ctx_size": 16})

    assert (answer.status, answer.param) == (422, "name")
    assert not Alias.objects.exists()
    assert Preset.objects.get(pk=preset.pk).ctx_size == 4096


def test_a_model_file_that_is_not_there_is_refused(manager, preset):
    for answer in (
        manager.patch(f"/presets/{preset.name}", {"model_file": 10**9}),
        manager.post("/presets", {"name": "b", "model_file": 10**9}),
    ):
        assert (answer.status, answer.param) == (422, "model_file")


def test_a_deleted_preset_takes_its_aliases_along(manager, preset):
    Alias.objects.create(name="short", preset=preset)

    assert manager.delete(f"/presets/{preset.name}").status == 204
    assert not Alias.objects.exists()
    assert manager.get(f"/presets/{preset.name}").code == "model_not_found"


def test_the_history_says_which_key_it_was(manager, preset):
    manager.patch(f"/presets/{preset.name}", {"parallel": 2})

    assert preset.history.first().history_change_reason.startswith("the admin key robot (ck_")


def test_every_change_raises_the_revision(manager, preset, tmp_path):
    file = make_model_file(tmp_path / "b.gguf")
    for ask in (
        lambda: manager.post("/presets", {"name": "b", "model_file": file.pk}),
        lambda: manager.patch("/presets/b", {"ctx_size": 16}),
        lambda: manager.post("/presets/b/pin"),
        lambda: manager.post("/aliases", {"name": "c", "preset": "b"}),
        lambda: manager.delete("/aliases/c"),
        lambda: manager.delete("/presets/b"),
        lambda: manager.delete(f"/models/{file.pk}"),
    ):
        before = registry_revision()
        assert ask().status < 300
        assert registry_revision() > before


@pytest.mark.django_db(transaction=True)
def test_the_scheduler_is_told_of_a_change_once_it_is_committed(scheduler, tmp_path):
    row = make_preset("a", make_model_file(tmp_path / "a.gguf"))
    told = scheduler.times("Reload")

    assert Manager(admin_key()).patch("/presets/a", {"ctx_size": 16}).status == 200
    assert scheduler.times("Reload") == told + 1
    assert Preset.objects.get(pk=row.pk).ctx_size == 16


def test_what_is_refused_raises_no_revision(manager, preset):
    before = registry_revision()
    manager.patch(f"/presets/{preset.name}", {"extra_options": "host = 0.0.0.0"})
    manager.post("/presets", {"name": "", "model_file": 1})

    assert registry_revision() == before


def test_pinning_is_an_edit_like_any_other(manager, preset):
    pinned = manager.post(f"/presets/{preset.name}/pin").json
    unpinned = manager.post(f"/presets/{preset.name}/unpin").json

    assert (pinned["pinned"], unpinned["pinned"]) == (True, False)
    assert unpinned["version"] == pinned["version"] + 1


def test_the_effective_options_say_where_each_comes_from(manager, preset, settings):
    settings.CORRAL_COMMAND_LINE = {"threads": "3"}

    told = manager.get(f"/presets/{preset.name}/effective").json

    rows = {row["key"]: row for row in told["options"]}
    assert rows["ctx-size"] == {
        "key": "ctx-size", "value": "4096", "layer": "preset", "where": "preset", "locked": False,
    }  # fmt: skip
    assert (rows["threads"]["layer"], rows["threads"]["locked"]) == ("command_line", True)
    assert rows["parallel"]["layer"] == "default"
    assert rows["model"]["layer"] == "model_file"
    assert (rows["cache-ram"]["value"], rows["cache-ram"]["layer"]) == ("512", "default")
    own = (
        "--cache-ram 512 --ctx-size 4096 --kv-unified --parallel 4 --swa-checkpoints 4 --threads 3"
    )
    assert own in told["command_line"]
    assert told["argv"][0] == settings.CORRAL_LLAMA_SERVER


def test_the_effective_options_of_a_preset_that_cannot_start_say_why(manager, preset):
    Preset.objects.update(extra_options="host = 1")

    answer = manager.get(f"/presets/{preset.name}/effective")

    assert (answer.status, answer.code) == (503, "preset_invalid")
    assert "host" in answer.message


def test_presets_are_found_by_a_part_of_their_name(manager, preset, tmp_path):
    make_preset("other", make_model_file(tmp_path / "b.gguf"), pinned=True)

    for query, names in (
        ("", ["other", "user/repo:Q4_K_M"]),
        ("?search=repo", ["user/repo:Q4_K_M"]),
        ("?pinned=true", ["other"]),
        (f"?model_file={preset.model_file.pk}", ["user/repo:Q4_K_M"]),
        ("?search=%25", []),
    ):
        assert [row["name"] for row in manager.get(f"/presets{query}").json["items"]] == names


def test_a_list_takes_as_many_queries_for_one_row_as_for_many(
    manager, tmp_path, django_assert_max_num_queries
):
    for number in range(20):
        row = make_preset(f"p{number}", make_model_file(tmp_path / f"{number}.gguf"))
        Alias.objects.create(name=f"q{number}", preset=row)
    manager.get("/presets")  # notes the key's use

    for path, most in (("/presets", 5), ("/models", 4), ("/aliases", 3), ("/keys", 3)):
        with django_assert_max_num_queries(most):
            assert manager.get(path).status == 200
