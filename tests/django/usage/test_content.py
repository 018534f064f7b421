"""Stored prompts and answers: in the same transaction as their record, for as long as their team
says, read by whoever may."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone

from proxy.content.keeping import drop_old_content
from proxy.models import Team, UsageContent, UsageRecord
from proxy.usage.record import Content, Record, line_of
from proxy.usage.taking_up import take_up

pytestmark = [pytest.mark.django_db, pytest.mark.each_database]


def kept(folder: Path, name: str, team: Team, days_ago: float = 0.0) -> None:
    at = (timezone.now() - timedelta(days=days_ago)).timestamp()
    content = Content(f"prompt of {name} \0", f"answer to {name}")
    record = Record(name, name, at, team=team.name, team_id=team.pk, content=content)
    plain = Record(f"{name}-plain", name, at, team=team.name, team_id=team.pk)
    (folder / "1.jsonl").write_bytes(line_of(plain) + line_of(record))
    assert take_up(folder).records == 2


def prompts() -> set[str]:
    return set(UsageContent.objects.values_list("prompt", flat=True))


def test_it_is_in_the_database_beside_its_record(tmp_path):
    kept(tmp_path, "one", Team.objects.create(name="blue"))

    content = UsageContent.objects.get()
    assert content.usage.record == "one"
    assert (content.prompt, content.answer) == ("prompt of one ", "answer to one")
    assert content.at == content.usage.at


def test_what_is_older_than_its_team_says_goes(tmp_path):
    blue = Team.objects.create(name="blue", content_days=3)
    red = Team.objects.create(name="red", content_days=30)
    gone = Team.objects.create(name="gone")
    kept(tmp_path, "old", blue, days_ago=4)
    kept(tmp_path, "new", blue, days_ago=2)
    kept(tmp_path, "other", red, days_ago=4)
    kept(tmp_path, "orphan", gone)
    gone.delete()

    assert drop_old_content() == 2
    assert prompts() == {"prompt of new ", "prompt of other "}
    assert UsageRecord.objects.count() == 8


def test_it_goes_with_its_record(tmp_path):
    kept(tmp_path, "one", Team.objects.create(name="blue"))
    UsageRecord.objects.all().delete()

    assert not UsageContent.objects.exists()


def test_turning_it_on_and_off_is_in_the_teams_history():
    team = Team.objects.create(name="blue")
    team.keeps_content = True
    team.save()

    assert [each.keeps_content for each in team.history.order_by("history_id")] == [False, True]


@pytest.mark.parametrize(("may", "status"), [(True, 200), (False, 403)])
def test_it_is_read_by_whoever_has_the_permission_and_changed_by_nobody(
    client, tmp_path, may, status
):
    kept(tmp_path, "one", Team.objects.create(name="blue"))
    reader = User.objects.create_user("reader", is_staff=True)
    if may:
        reader.user_permissions.add(Permission.objects.get(codename="view_usagecontent"))
    client.force_login(reader)
    page = f"/admin/proxy/usagecontent/{UsageContent.objects.get().pk}/change/"

    assert client.get("/admin/proxy/usagecontent/").status_code == status
    answer = client.get(page)
    assert answer.status_code == status
    assert (b"answer to one" in answer.content) is may
    assert client.post(page, {"prompt": "changed"}).status_code == 403
    assert client.post("/admin/proxy/usagecontent/add/").status_code == 403
