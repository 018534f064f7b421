"""Groups, profiles, the global preset, clones, and what else presets have for many at once: as
programs find and change them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from models_registry.models import Alias, Group, ModelFile, Preset, Profile

from .management import Manager, admin_key, session_of, staff
from .registry_rows import make_model_file, make_preset

pytestmark = pytest.mark.django_db


def names(manager: Manager, query: str) -> list[str]:
    return [row["name"] for row in manager.get(f"/presets{query}").json["items"]]


def test_a_preset_has_all_that_was_said_of_it(manager, preset):
    Group.objects.create(name="large")
    told: dict[str, Any] = {
        "base": preset.name,
        "group": "large",
        "tags": ["chat", "code"],
        "unlisted": True,
        "environment": "OMP_PROC_BIND=close",
        "request_strip": ["seed", "user"],
        "request_defaults": {"temperature": 0.2},
        "request_set": {"top_k": 1},
    }

    made = manager.post("/presets", {"name": "b", "model_file": preset.model_file.pk, **told})
    read = manager.get("/presets/b")

    assert made.status == 201
    assert {key: read.json[key] for key in told} == told
    cleared = manager.patch("/presets/b", {"base": None, "group": None, "tags": []}).json
    assert (cleared["base"], cleared["group"], cleared["tags"]) == (None, None, [])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base", "nobody"),
        ("group", "nobody"),
        ("tags", ["a,b"]),
        ("environment", "PATH=/tmp"),
        ("environment", "no equals sign"),
        ("request_strip", ["model"]),
        ("request_set", {"model": "x"}),
        ("request_defaults", {"stream": True}),
        ("request_set", ["a"]),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(manager, preset, field, value):
    answer = manager.patch(f"/presets/{preset.name}", {field: value})

    assert (answer.status, answer.param) == (422, field)
    assert Preset.objects.get().version == preset.version


def test_a_base_that_goes_round_is_refused(manager, preset):
    manager.post(f"/presets/{preset.name}/clone", {"name": "heir"})
    manager.patch("/presets/heir", {"base": preset.name})

    answer = manager.patch(f"/presets/{preset.name}", {"base": "heir"})

    assert (answer.status, answer.param) == (422, "base")


def test_a_base_is_not_deleted_alone_and_goes_with_its_heirs(manager, preset):
    manager.post("/presets", {"name": "heir", "model_file": preset.model_file.pk})
    manager.patch("/presets/heir", {"base": preset.name})

    refused = manager.delete(f"/presets/{preset.name}")
    with_file = manager.delete(f"/models/{preset.model_file.pk}?cascade=true")

    assert (refused.status, refused.code) == (409, "conflict")
    assert "heir" in refused.message
    assert with_file.status == 204
    assert not Preset.objects.exists()


def test_secrets_of_the_environment_are_shown_to_those_alone_who_may_do_everything(manager, preset):
    preset.environment = "GGML_TOKEN_SALT=abc\nOMP_PROC_BIND=close"
    preset.save()
    path = f"/presets/{preset.name}"
    limited = Manager(
        client=session_of(staff("models_registry.view_preset", "models_registry.change_preset"))
    )

    assert "abc" in manager.get(path).json["environment"]
    assert limited.get(path).json["environment"] == "GGML_TOKEN_SALT=••••\nOMP_PROC_BIND=close"
    refused = limited.patch(path, {"environment": "OMP_PROC_BIND=spread"})
    assert (refused.status, refused.param) == (403, "environment")
    assert limited.patch(path, {"tags": ["a"]}).status == 200
    preset.refresh_from_db()
    assert "abc" in preset.environment


def test_a_clone_has_all_options_and_profiles_and_no_alias(manager, preset):
    preset.extra_options, preset.tags, preset.ctx_size = "top-k = 1", "chat", 512
    preset.request_set = {"top_p": 0.5}
    preset.save()
    Alias.objects.create(name="short", preset=preset)
    Profile.objects.create(name="nights", active=False).presets.add(preset)

    first = manager.post(f"/presets/{preset.name}/clone")
    second = manager.post(f"/presets/{preset.name}/clone", {"name": "mine"})

    assert (first.status, first.json["name"]) == (201, f"copy of {preset.name}")
    assert second.json["name"] == "mine"
    source = manager.get(f"/presets/{preset.name}").json
    differing = {key for key in source if source[key] != second.json[key]}
    assert differing <= {"id", "version", "name", "aliases"}
    assert second.json["aliases"] == []
    again = manager.post(f"/presets/{preset.name}/clone").json["name"]
    assert again == f"copy of {preset.name}-2"
    taken = manager.post(f"/presets/{preset.name}/clone", {"name": "short"})
    assert (taken.status, taken.param) == (422, "name")


def test_presets_are_listed_by_tag_group_profile_and_source(manager, preset):
    other = make_preset("other", preset.model_file, tags="chat, code", source="demo")
    make_preset("filed", preset.model_file, file_options={"tags": "code"})
    other.group = Group.objects.create(name="large")
    other.save()
    Profile.objects.create(name="days").presets.add(other)

    assert names(manager, "?tags=code") == ["filed", "other"]
    assert names(manager, "?tags=code,chat") == ["other"]
    assert names(manager, "?tags=cod") == []
    for query in ("?group=large", "?profile=days", "?source=demo"):
        assert names(manager, query) == ["other"]


def test_a_group_moves_its_members_and_says_so_in_their_history(manager, preset):
    make_preset("b", preset.model_file)
    Group.objects.create(name="old")
    Preset.objects.filter(name="b").update(group=Group.objects.get())

    made = manager.post(
        "/groups", {"name": "new", "one_at_a_time": True, "presets": ["b", preset.name]}
    )
    changed = manager.patch("/groups/new", {"presets": ["b"]})

    assert (made.status, made.json["presets"]) == (201, ["b", preset.name])
    assert changed.json["presets"] == ["b"]
    assert manager.get("/groups/old").json["presets"] == []
    preset.refresh_from_db()
    assert preset.group is None
    assert preset.history.first().history_change_reason.startswith("the admin key robot")
    assert manager.delete("/groups/new").status == 204
    assert Preset.objects.get(name="b").group is None


def test_who_may_not_change_presets_moves_none_into_a_group(preset):
    limited = Manager(client=session_of(staff("models_registry.add_group")))

    refused = limited.post("/groups", {"name": "mine", "presets": [preset.name]})

    assert (refused.status, refused.param) == (403, "presets")
    assert not Group.objects.exists()
    assert limited.post("/groups", {"name": "mine"}).status == 201


def test_a_profile_says_what_it_switches(manager, preset):
    make_preset("b", preset.model_file)
    manager.post("/profiles", {"name": "days", "presets": ["b", preset.name]})
    manager.post("/profiles", {"name": "always", "presets": ["b"]})

    off = manager.post("/profiles/days/deactivate")
    again = manager.post("/profiles/days/deactivate")
    on = manager.post("/profiles/days/activate")

    assert off.json == {
        "profile": "days",
        "active": False,
        "changed": True,
        "presets": [preset.name],
    }
    assert (again.json["changed"], again.json["presets"]) == (False, [])
    assert (on.json["active"], on.json["presets"]) == (True, [preset.name])
    assert manager.patch("/profiles/days", {"presets": []}).json["presets"] == []
    unknown = manager.patch("/profiles/days", {"presets": ["nobody"]})
    assert (unknown.status, unknown.param) == (422, "presets")
    assert manager.delete("/profiles/days").status == 204
    assert manager.get("/profiles/days").status == 404


def test_the_global_preset_is_checked_and_for_those_who_may_do_everything(manager, preset):
    limited = Manager(
        client=session_of(
            staff("models_registry.view_globalpreset", "models_registry.change_globalpreset")
        )
    )

    assert limited.get("/global-preset").json == {"options": "", "file_options": {}}
    assert limited.patch("/global-preset", {"options": "threads = 2"}).status == 403
    bad = manager.patch("/global-preset", {"options": "nonsense = 2"})
    assert (bad.status, bad.param) == (422, "options")
    assert manager.patch("/global-preset", {"options": "threads = 2"}).status == 200
    effective = manager.get(f"/presets/{preset.name}/effective").json["options"]
    (threads,) = [option for option in effective if option["key"] == "threads"]
    assert (threads["value"], threads["layer"]) == ("2", "global")


def test_a_model_file_gets_a_draft_model(manager, preset, tmp_path):
    draft = make_model_file(tmp_path / "draft.gguf")
    path = f"/models/{preset.model_file.pk}"

    changed = manager.patch(path, {"draft": draft.path})
    missing = manager.patch(path, {"draft": str(tmp_path / "none.gguf")})

    assert (changed.status, changed.json["draft"]) == (200, draft.path)
    assert (missing.status, missing.param) == (422, "draft")
    assert manager.patch(path, {"draft": ""}).json["draft"] == ""


def test_an_alias_has_parameters_of_its_own(manager, preset):
    body = {"name": "calm", "preset": preset.name, "request_set": {"temperature": 0}}

    made = manager.post("/aliases", body)
    changed = manager.patch("/aliases/calm", {"request_set": {"temperature": 0.1}})
    refused = manager.patch("/aliases/calm", {"request_set": {"model": "x"}})

    assert made.json["request_set"] == {"temperature": 0}
    assert changed.json["request_set"] == {"temperature": 0.1}
    assert (refused.status, refused.param) == (422, "request_set")


@pytest.mark.parametrize("path", ["/presets", "/groups", "/profiles"])
def test_lists_cost_the_same_for_few_and_for_many(manager, preset, path):
    def add(count: int, start: int) -> None:
        for number in range(start, start + count):
            group = Group.objects.create(name=f"g{number}")
            row = make_preset(f"p{number}", preset.model_file, group=group, base=preset)
            Profile.objects.create(name=f"w{number}").presets.add(row)

    add(2, 0)
    manager.get(path)  # notes the key's use
    with CaptureQueriesContext(connection) as few:
        manager.get(path)
    add(20, 2)
    with CaptureQueriesContext(connection) as many:
        assert manager.get(path).json["count"] >= 22

    assert len(many) == len(few)


def test_admin_keys_may_do_all_of_it(scheduler):
    manager = Manager(admin_key())

    assert manager.get("/groups").status == manager.get("/profiles").status == 200
    assert ModelFile.objects.count() == 0
