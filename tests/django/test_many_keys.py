"""Teams with many keys and members: no page reads, or shows, all of them at once."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from proxy.account.views import KEYS_PER_PAGE
from proxy.models import ApiKey, Membership, Team

from .admin_forms import sent_by
from .management import session_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return Team.objects.create(name="crowd")


def keys(team: Team, count: int, owner: User | None = None, begin: int = 0) -> None:
    ApiKey.objects.bulk_create(
        ApiKey(team=team, user=owner, name=f"key {n:04}", public_id=f"k{n:07}", digest="0" * 64)
        for n in range(begin, begin + count)
    )


def lead(team: Team) -> User:
    user = User.objects.create_user("lena")
    Membership.objects.create(user=user, team=team, role="lead")
    return user


def page_of(client: Client, path: str) -> tuple[str, int]:
    """And how many queries it took."""
    with CaptureQueriesContext(connection) as asked:
        answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode(), len(asked)


def test_a_leads_page_shows_so_many_keys_at_once_their_own_first(scheduler, team):
    user = lead(team)
    client = session_of(user)
    keys(team, KEYS_PER_PAGE)
    keys(team, 1, user, begin=9000)
    client.get("/account/")
    _, few = page_of(client, "/account/")
    keys(team, 2 * KEYS_PER_PAGE, begin=1000)

    first, many = page_of(client, "/account/")
    last, _ = page_of(client, "/account/?page=4")

    assert few == many
    assert first.count("/revoke/") == KEYS_PER_PAGE
    assert first.index("ck_k0009000_") < first.index("ck_k0000000_")
    assert f"1 to {KEYS_PER_PAGE} of {3 * KEYS_PER_PAGE + 1}" in first
    assert last.count("/revoke/") == 1
    assert page_of(client, "/account/?page=nonsense")[0].count("/revoke/") == KEYS_PER_PAGE


def test_the_list_of_teams_counts_keys_and_members_apart(scheduler, team):
    boss = session_of(User.objects.create_superuser("boss"))
    keys(team, 30)
    users = [User.objects.create_user(f"u{n}") for n in range(4)]
    Membership.objects.bulk_create(Membership(user=user, team=team) for user in users)

    listed, _ = page_of(boss, "/admin/proxy/team/?o=-4")

    cells = [listed.split(f'class="field-{name}')[1] for name in ("key_count", "member_count")]
    assert [cell.split("</td>")[0].split(">")[-1].strip() for cell in cells] == ["30", "4"]


def test_saving_a_team_whose_members_fill_several_pages_keeps_them_all(scheduler, team):
    boss = session_of(User.objects.create_superuser("boss"))
    users = User.objects.bulk_create(User(username=f"u{n:02}") for n in range(40))
    Membership.objects.bulk_create(Membership(user=user, team=team) for user in users)
    path = f"/admin/proxy/team/{team.pk}/change/"

    page = boss.get(path)
    sent = {**sent_by(page), "weight": "3"}
    answer = boss.post(path, sent)

    assert answer.status_code == 302, answer.context["errors"]
    team.refresh_from_db()
    assert (team.weight, team.memberships.count()) == (3.0, 40)
