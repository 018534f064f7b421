"""The record in the admin can be read, and only read."""

from __future__ import annotations

import pytest
from django.utils import timezone

from scheduler.models import DecisionRecord, InstanceRecord

pytestmark = pytest.mark.django_db


@pytest.fixture
def rows():
    instance = InstanceRecord.objects.create(preset="a", started_at=timezone.now(), words="boom")
    decision = DecisionRecord.objects.create(
        at=timezone.now(), kind="start", preset="a", instance=instance, reason="requested"
    )
    return {"instancerecord": instance.pk, "decisionrecord": decision.pk}


@pytest.mark.parametrize("name", ["instancerecord", "decisionrecord"])
def test_the_list_and_a_row_can_be_read(admin_client, rows, name):
    assert admin_client.get(f"/admin/scheduler/{name}/").status_code == 200
    assert admin_client.get(f"/admin/scheduler/{name}/{rows[name]}/change/").status_code == 200


@pytest.mark.parametrize("name", ["instancerecord", "decisionrecord"])
def test_nothing_can_be_added_changed_or_removed(admin_client, rows, name):
    base = f"/admin/scheduler/{name}/"

    assert admin_client.get(f"{base}add/").status_code == 403
    assert admin_client.post(f"{base}{rows[name]}/change/", {"preset": "b"}).status_code == 403
    assert admin_client.post(f"{base}{rows[name]}/delete/", {"post": "yes"}).status_code == 403
