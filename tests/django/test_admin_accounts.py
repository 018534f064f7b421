"""A right to edit users is no right to everything."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from proxy.models import Membership, Team

from .management import session_of, staff

pytestmark = pytest.mark.django_db

PASSWORD = {
    "usable_password": "true",
    "password1": "Quite-Another-1",
    "password2": "Quite-Another-1",
}


@pytest.fixture
def clerk() -> User:
    return staff("auth.change_user", "auth.view_user", "auth.delete_user", "auth.change_group")


@pytest.fixture
def desk(clerk: User) -> Client:
    """The clerk's session."""
    return session_of(clerk)


def change(client: Client, user: User, **fields: Any) -> Any:
    sent = {
        "username": user.username,
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
        "is_active": "on",
        "is_staff": "on",
        **fields,
    }
    return client.post(f"/admin/auth/user/{user.pk}/change/", sent)


def test_nobody_makes_himself_a_superuser_or_gives_himself_rights(
    desk: Client, clerk: User
) -> None:
    group = Group.objects.create(name="all")
    right = Permission.objects.get(codename="add_user")

    answer = change(
        desk, clerk, is_superuser="on", groups=[group.pk], user_permissions=[right.pk],
        first_name="Robin",
    )  # fmt: skip

    clerk = User.objects.get(pk=clerk.pk)
    assert (answer.status_code, clerk.first_name) == (302, "Robin")
    assert not clerk.is_superuser
    assert not clerk.groups.exists()
    assert not clerk.has_perm("auth.add_user")


@pytest.mark.parametrize(
    "rights", ["superuser", "more", "more, inactive", "more, by a group", "a team's"]
)
def test_an_account_that_may_do_more_is_not_in_ones_hands(desk: Client, rights: str) -> None:
    account = User.objects.create_user("boss", is_staff=True, is_superuser=rights == "superuser")
    right = Permission.objects.get(codename="add_apikey")
    if rights == "more, by a group":
        group = Group.objects.create(name="makers")
        group.permissions.add(right)
        account.groups.add(group)
    elif rights == "a team's":
        Membership.objects.create(user=account, team=Team.objects.create(name="builders"))
    elif rights != "superuser":
        account.user_permissions.add(right)
    User.objects.filter(pk=account.pk).update(is_active=rights != "more, inactive")
    before = User.objects.values().get(pk=account.pk)

    answers = [
        change(desk, account, username="taken"),
        desk.post(f"/admin/auth/user/{account.pk}/password/", PASSWORD),
        desk.post(f"/admin/auth/user/{account.pk}/delete/", {"post": "yes"}),
    ]
    desk.post(
        "/admin/auth/user/",
        {"action": "delete_selected", "_selected_action": [account.pk], "post": "yes"},
    )

    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert User.objects.values().get(pk=account.pk) == before


def test_an_account_that_may_do_no_more_can_be_edited_and_given_a_password(desk: Client) -> None:
    account = User.objects.create_user("guest")

    change(desk, account, username="visitor")
    answer = desk.post(f"/admin/auth/user/{account.pk}/password/", PASSWORD)

    account.refresh_from_db()
    assert (answer.status_code, account.username) == (302, "visitor")
    assert account.check_password(PASSWORD["password1"])


@pytest.mark.parametrize(
    ("own", "theirs", "may"),
    [
        ("lead", "member", True),
        ("member", "member", True),
        ("member", "lead", False),
        ("may change members", "lead", True),
    ],
)
def test_of_an_account_in_a_team_a_password_is_set_by_who_may_do_as_much_there(
    desk: Client, clerk: User, own: str, theirs: str, may: bool
) -> None:
    team = Team.objects.create(name="builders")
    account = User.objects.create_user("guest")
    Membership.objects.create(user=account, team=team, role=theirs)
    if own == "may change members":
        clerk.user_permissions.add(Permission.objects.get(codename="change_membership"))
    else:
        Membership.objects.create(user=clerk, team=team, role=own)

    answer = desk.post(f"/admin/auth/user/{account.pk}/password/", PASSWORD)

    account.refresh_from_db()
    assert answer.status_code == (302 if may else 403)
    assert account.check_password(PASSWORD["password1"]) is may


def test_nobody_gives_a_group_rights_but_a_superuser(desk: Client, admin_client: Client) -> None:
    group = Group.objects.create(name="all")
    right = Permission.objects.get(codename="add_user")
    page = f"/admin/auth/group/{group.pk}/change/"

    desk.post(page, {"name": "every", "permissions": [right.pk]})
    group.refresh_from_db()
    assert (group.name, group.permissions.count()) == ("every", 0)

    admin_client.post(page, {"name": "every", "permissions": [right.pk]})
    assert group.permissions.count() == 1


def test_a_superuser_makes_another_one(admin_client: Client) -> None:
    account = User.objects.create_user("deputy")

    change(admin_client, account, is_superuser="on")

    account.refresh_from_db()
    assert account.is_superuser
