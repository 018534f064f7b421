"""The admin's dress: all of it served from here, and the same pages for everybody's rights."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from .registry_rows import FakeScheduler, use_scheduler

pytestmark = pytest.mark.django_db
REFERENCE = re.compile(r"""(?:src|href|action|hx-get)=["']([^"']+)["']""")
LISTS = [
    "models_registry/preset", "models_registry/modelfile", "models_registry/alias",
    "models_registry/measurement", "scheduler/instancerecord", "scheduler/decisionrecord",
    "proxy/team", "proxy/apikey", "auth/user", "auth/group",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    use_scheduler(monkeypatch, FakeScheduler())


def references(page: str) -> set[str]:
    return {found for found in REFERENCE.findall(page) if not found.startswith(("#", "?"))}


@pytest.mark.parametrize("path", ["", *(f"{model}/" for model in LISTS)])
def test_pages_refer_to_no_other_host(admin_client: Client, path: str) -> None:
    page = admin_client.get(f"/admin/{path}").content.decode()

    assert {found for found in references(page) if not found.startswith("/")} == set()
    assert not re.search(r"@import|url\(['\"]?(https?:)?//", page)


def test_what_the_pages_load_is_served_without_being_collected(
    admin_client: Client, client: Client
) -> None:
    page = admin_client.get("/admin/models_registry/preset/add/").content.decode()
    files = {found for found in references(page) if found.startswith("/static/")}

    assert {client.get(file).status_code for file in files} == {200}
    assert "/static/corral/admin.css" in files
    assert "/static/corral/icon.svg" in files


def test_style_sheets_refer_to_no_other_host(client: Client) -> None:
    for file in ("unfold/css/styles.css", "unfold/fonts/inter/styles.css", "corral/admin.css"):
        assert b"://" not in re.sub(rb"/\*.*?\*/", b"", client.get(f"/static/{file}").content)


def test_the_side_bar_has_its_sections_and_every_list(admin_client: Client) -> None:
    page = admin_client.get("/admin/").content.decode()

    assert "<title> Site administration | Corral</title>" in page
    for section in ("Models", "Scheduler", "Access"):
        assert re.search(rf">\s*{section}\s*<", page)
    assert {f"/admin/{model}/" for model in LISTS} <= references(page)


def test_the_side_bar_shows_what_one_may_look_at(client: Client) -> None:
    user = User.objects.create_user("looker", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_preset"))
    client.force_login(user)

    links = references(client.get("/admin/").content.decode())

    assert "/admin/models_registry/preset/" in links
    assert "/admin/proxy/apikey/" not in links


def test_times_are_written_to_the_second(admin_client: Client, admin_user: Any) -> None:
    page = admin_client.get("/admin/proxy/team/").content.decode()

    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", page)
