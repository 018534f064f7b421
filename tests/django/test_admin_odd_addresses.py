"""Numbers in the admin's and the management API's addresses that no database can hold."""

from __future__ import annotations

import pytest
from django.test import Client

from models_registry.models import Preset

pytestmark = pytest.mark.django_db

HUGE = [str(2**63), str(2**70), "9" * 5000]


@pytest.mark.parametrize("key", HUGE)
def test_states_are_told_of_the_rows_there_are_whatever_else_is_named(
    admin_client: Client, preset: Preset, key: str
) -> None:
    answer = admin_client.get(
        f"/admin/models_registry/preset/states/?ids={key},{preset.pk},-1,x,,²"
    )

    assert answer.status_code == 200
    assert f"state-{preset.pk}" in answer.content.decode()


@pytest.mark.parametrize("key", HUGE)
@pytest.mark.parametrize(
    "page",
    [
        "/admin/models_registry/preset/{}/now/",
        "/admin/models_registry/preset/{}/change/",
        "/admin/models_registry/preset/{}/history/",
        "/admin/models_registry/preset/{}/history/1/",
        "/admin/models_registry/preset/1/history/{}/",
        "/admin/models_registry/preset/{}/delete/",
        "/admin/models_registry/preset/?p={}",
        "/admin/models_registry/preset/?q={}",
        "/admin/models_registry/preset/?pinned__exact={}",
        "/admin/models_registry/measurement/{}/change/",
        "/admin/scheduler/instancerecord/{}/change/",
        "/admin/scheduler/instancerecord/?started_at__year={}",
        "/admin/scheduler/decisionrecord/?at__year={}&at__month=13",
        "/admin/proxy/apikey/?team__id__exact={}",
        "/admin/proxy/apikey/?team__id__in={}",
        "/admin/proxy/team/{}/history/",
        "/admin/auth/user/{}/password/",
    ],
)
def test_a_page_of_a_row_that_cannot_be_is_no_fault_of_ours(
    admin_client: Client, preset: Preset, page: str, key: str
) -> None:
    admin_client.raise_request_exception = False

    assert admin_client.get(page.format(key)).status_code < 500


@pytest.mark.parametrize("key", HUGE[:2])
@pytest.mark.parametrize(
    "page", ["models_registry/preset", "models_registry/modelfile", "proxy/apikey", "auth/user"]
)
def test_an_action_on_a_row_that_cannot_be_changes_nothing(
    admin_client: Client, preset: Preset, page: str, key: str
) -> None:
    admin_client.raise_request_exception = False

    answer = admin_client.post(
        f"/admin/{page}/", {"action": "delete_selected", "_selected_action": [key], "post": "yes"}
    )

    assert answer.status_code < 500
    assert Preset.objects.count() == 1


@pytest.mark.parametrize("key", HUGE)
@pytest.mark.parametrize(
    "path",
    ["/models/{}", "/measurements/{}", "/aliases/{}", "/presets/{}", "/keys?team={}"],
)
def test_a_route_of_a_row_that_cannot_be_is_not_found_or_refused(manager, preset, path, key):
    answer = manager.get(path.format(key))

    assert answer.status in (200, 404, 422)
