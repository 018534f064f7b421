"""Teams and keys: their history without any secret, and nobody gives away more than they have."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from models_registry.models import Preset
from proxy.keys import create_key
from proxy.models import ApiKey, Team

from .admin_forms import NO_LIMITS, NO_MEMBERS

pytestmark = pytest.mark.django_db


@pytest.fixture
def key() -> ApiKey:
    create_key("laptop")
    return ApiKey.objects.get()


def a_clerk(client: Client) -> Client:
    """May do all with keys, and is no superuser."""
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__endswith="apikey"))
    client.force_login(user)
    return client


def version_url(record: Any, model: str = "apikey") -> str:
    return reverse(f"admin:proxy_{model}_version", args=[record.id, record.history_id])


def test_the_history_of_a_key_holds_no_digest(admin_client: Client, key: ApiKey) -> None:
    pages = [
        reverse("admin:proxy_apikey_history", args=[key.pk]),
        version_url(ApiKey.history.get()),
    ]

    told = "".join(admin_client.get(page).content.decode() for page in pages)

    assert key.public_id in told
    assert key.digest not in told
    assert "digest" not in {field.name for field in ApiKey.history.model._meta.fields}


def test_revoking_stands_in_the_history_and_going_back_does_not_undo_it(
    admin_client: Client, admin_user: User, key: ApiKey
) -> None:
    first = ApiKey.history.get()
    ApiKey.objects.update(name="desk")
    admin_client.post(
        reverse("admin:proxy_apikey_changelist"),
        {"action": "revoke", "_selected_action": [key.pk]},
    )
    assert ApiKey.history.latest().history_user == admin_user

    admin_client.post(version_url(first))

    after = ApiKey.objects.get()
    assert (after.name, after.digest) == ("laptop", key.digest)
    assert after.revoked_at is not None


def test_a_deleted_key_stays_deleted(admin_client: Client, key: ApiKey) -> None:
    key.delete()

    assert admin_client.post(version_url(ApiKey.history.latest())).status_code == 403
    listing = admin_client.get(reverse("admin:proxy_apikey_changelist")).content.decode()
    assert reverse("admin:proxy_apikey_deleted") not in listing
    assert ApiKey.objects.count() == 0


def test_only_superusers_give_a_key_the_scope_admin(client: Client, key: ApiKey) -> None:
    clerk = a_clerk(client)
    data = {"team": key.team.pk, "name": "new", "scopes": ["infer", "admin"]}

    clerk.post(reverse("admin:proxy_apikey_add"), data)
    clerk.post(reverse("admin:proxy_apikey_change", args=[key.pk]), data)

    data["scopes"] = ["infer"]
    clerk.post(reverse("admin:proxy_apikey_add"), data)

    assert [each.scopes for each in ApiKey.objects.order_by("pk")] == [["infer", "read"], ["infer"]]


def test_only_superusers_go_back_to_the_scope_admin(client: Client, key: ApiKey) -> None:
    ApiKey.history.update(scopes=["admin"])

    page = a_clerk(client).post(version_url(ApiKey.history.get())).content.decode()

    assert "Only superusers" in page
    assert ApiKey.objects.get().scopes == ["infer", "read"]


def test_the_list_tells_keys_in_use_from_others(admin_client: Client, key: ApiKey) -> None:
    listing = reverse("admin:proxy_apikey_changelist")
    assert ">in use</span>" in admin_client.get(listing).content.decode()

    ApiKey.objects.update(expires_at=timezone.now())
    assert ">expired</span>" in admin_client.get(listing).content.decode()

    ApiKey.objects.update(revoked_at=timezone.now())
    assert ">revoked</span>" in admin_client.get(listing).content.decode()


def test_a_deleted_team_comes_back(admin_client: Client) -> None:
    team = Team.objects.create(name="builders")
    team.delete()

    admin_client.post(version_url(Team.history.latest(), "team"))

    assert Team.objects.filter(name="builders").exists()


def test_the_lists_cost_the_same_for_one_and_for_many(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(15):
        create_key(f"key {number}", f"team {number}")

    with django_assert_max_num_queries(7):
        admin_client.get(reverse("admin:proxy_team_changelist"))
    with django_assert_max_num_queries(9):
        admin_client.get(reverse("admin:proxy_apikey_changelist"))


def test_how_a_team_stands_in_the_queue_is_edited_shown_and_kept(admin_client: Client) -> None:
    team = Team.objects.get()
    page = reverse("admin:proxy_team_change", args=[team.pk])
    fields = {"name": team.name, "weight": "2.5", "priority": "high", **NO_MEMBERS, **NO_LIMITS}

    assert admin_client.post(page, fields).status_code == 302
    refused = admin_client.post(page, {**fields, "weight": "0"})

    team.refresh_from_db()
    assert (team.weight, team.priority) == (2.5, "high")
    assert "Write a number from 0.01 to 1000." in refused.content.decode()
    assert team.history.latest().priority == "high"
    listed = admin_client.get(reverse("admin:proxy_team_changelist")).content.decode()
    assert "2.5" in listed
    assert "high" in listed


def test_aliases_of_a_key_and_a_team_are_edited_as_objects(
    admin_client: Client, key: ApiKey, preset: Preset
) -> None:
    page = reverse("admin:proxy_apikey_change", args=[key.pk])
    data = {"team": key.team_id, "name": "laptop", "scopes": ["infer"], **NO_LIMITS}
    wrong = admin_client.post(page, {**data, "aliases": '{"gpt-4o*": "nobody"}'})
    saved = admin_client.post(page, {**data, "aliases": f'{{"gpt-4o*": "{preset.name}"}}'})
    team = reverse("admin:proxy_team_change", args=[key.team_id])
    of_team = {
        "name": "default",
        "weight": "1",
        "priority": "normal",
        "aliases": "[1]",
        **NO_MEMBERS,
        **NO_LIMITS,
    }

    assert "no preset or alias is called so" in wrong.content.decode()
    assert saved.status_code == 302
    assert ApiKey.objects.get().aliases == {"gpt-4o*": preset.name}
    assert "Write an object" in admin_client.post(team, of_team).content.decode()
    odd = admin_client.post(team, {**of_team, "aliases": '{"a": [1]}'})
    assert "Write an object of names" in odd.content.decode()
    assert admin_client.post(team, {**of_team, "aliases": ""}).status_code == 302
    assert Team.objects.get().aliases == {}
