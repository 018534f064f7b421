"""Where a request of the playground's stands: told to who may know of it."""

from __future__ import annotations

import msgspec
import pytest
from django.contrib.auth.models import User
from django.test import Client

from proxy.models import Membership, Team
from routerproj.waiting import told
from scheduler.protocol import Explained

from .control_socket import StandInScheduler

WAITS = Explained(
    state="waiting",
    why="…",
    request="play-1",
    preset="alpha",
    tenant="builders",
    kind="post",
    priority="normal",
    waited=3.0,
    holdup="room",
    turn=1,
    position=2,
    seconds=9.0,
)


def test_place_turn_reason_and_estimate_are_told():
    words = told(WAITS)

    for part in ("place 2 for this model", "room is being made", "about", "more"):
        assert part in words


def test_one_that_is_answered_waits_for_its_model_to_read():
    assert told(msgspec.structs.replace(WAITS, state="answering")) == "The model reads the prompt."


@pytest.mark.django_db
@pytest.mark.parametrize(("team", "is_told"), [("builders", True), ("others", False)])
def test_only_the_requests_of_ones_own_team_are_told(
    scheduler: StandInScheduler, team: str, is_told: bool
):
    scheduler.explained = WAITS
    mia = User.objects.create_user("mia")
    Membership.objects.create(user=mia, team=Team.objects.create(name=team))
    client = Client()
    client.force_login(mia)

    words = client.get("/account/playground/waiting/play-1/").json()["told"]

    assert bool(words) is is_told


@pytest.mark.django_db
def test_nobody_is_told_of_a_request_that_is_not_there(admin_client: Client):
    assert admin_client.get("/account/playground/waiting/play-2/").json() == {"told": ""}
