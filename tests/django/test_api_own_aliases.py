"""Aliases of one key's, or of one team's: what may be written, and that it counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ValidationError

from models_registry.models import Alias
from proxy.conf import ProxyConfig
from proxy.key_ring import KeyRing
from proxy.keys import create_key
from proxy.models import ApiKey, Team
from scheduler.protocol import OwnNames

from .management import Manager

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def own(preset) -> dict[str, str]:
    Alias.objects.create(name="brief", preset=preset)
    return {"gpt-4o*": preset.name, "mine": "brief", preset.name: "brief", "*": preset.name}


def test_a_key_has_aliases_of_its_own(manager: Manager, own):
    made = manager.post("/keys", {"name": "laptop", "aliases": own})
    path = f"/keys/{made.json['public_id']}"
    changed = manager.patch(path, {"aliases": {"*": "brief"}})

    assert (made.status, made.json["aliases"]) == (201, own)
    assert (changed.status, changed.json["aliases"]) == (200, {"*": "brief"})
    assert manager.patch(path, {}).json == changed.json
    key = ApiKey.objects.get(name="laptop")
    assert [row.aliases for row in key.history.all()] == [{"*": "brief"}, own]


def test_a_team_has_aliases_of_its_own(manager: Manager, own):
    made = manager.post("/teams", {"name": "blue", "aliases": own})
    changed = manager.patch(f"/teams/{made.json['id']}", {"aliases": {}})

    assert (made.status, made.json["aliases"]) == (201, own)
    assert (changed.status, changed.json["aliases"]) == (200, {})


@pytest.mark.parametrize(
    "aliases",
    [
        {"gpt-4o": "nobody"},
        {"gpt-4o": "gpt*"},
        {"g*t": "brief"},
        {"": "brief"},
        {"a,b": "brief"},
        {"a": 1},
        {"a": None},
        ["brief"],
        "brief",
        {f"a{number}": "brief" for number in range(65)},
    ],
)
def test_aliases_that_cannot_be_are_refused_at_their_field(manager: Manager, own, aliases):
    answers = [
        manager.post("/keys", {"name": "laptop", "aliases": aliases}),
        manager.post("/teams", {"name": "blue", "aliases": aliases}),
    ]

    assert {(each.status, each.code) for each in answers} == {(422, "validation_failed")}
    assert all(each.param.startswith("aliases") for each in answers)
    assert not Team.objects.filter(name="blue").exists()


def test_a_form_and_a_command_refuse_what_the_api_refuses(own):
    key = ApiKey.objects.get(public_id=create_key("laptop")[3:11])
    key.aliases = {"gpt-4o": "nobody"}

    with pytest.raises(ValidationError, match="leads to 'nobody'"):
        key.full_clean()


def test_one_whose_preset_has_gone_stays_and_keeps_nobody_from_editing_the_rest(
    manager: Manager, preset
):
    team = manager.post("/teams", {"name": "blue", "aliases": {"a": preset.name}}).json
    preset.delete()
    path = f"/teams/{team['id']}"

    heavier = manager.patch(path, {"weight": 2.0})
    more = manager.patch(path, {"aliases": {"a": preset.name, "b": preset.name}})

    assert (heavier.status, heavier.json["aliases"]) == (200, {"a": preset.name})
    assert (more.status, more.param) == (422, "aliases")
    assert manager.patch(path, {"aliases": {}}).json["aliases"] == {}


async def test_they_are_known_with_the_key(own):
    from asgiref.sync import sync_to_async

    text = await sync_to_async(create_key)("laptop", "blue")
    await ApiKey.objects.filter(name="laptop").aupdate(aliases={"gpt-4o*": "brief"})
    await Team.objects.filter(name="blue").aupdate(aliases={"*": "brief", "gpt*": "other"})
    ring = KeyRing(ProxyConfig(Path("unused"), Path("unused"), Path("unused"), settings.SECRET_KEY))
    caller = await ring.identify([(b"authorization", b"Bearer " + text.encode())])
    await ring.close()

    assert caller.own_names("gpt-4o-mini") == OwnNames(wildcard="brief", default="brief")
    assert caller.own_names("gpt-4") == OwnNames(wildcard="other", default="brief")
