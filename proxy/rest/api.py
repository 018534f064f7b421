"""The routes of teams and their keys."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Path, Query, Router, Status

from models_registry.access import Needs, asker_of
from models_registry.shapes import Page, Paged
from proxy import editing, rotation
from proxy.content.switching import switch_content
from proxy.models import ApiKey, Team
from proxy.rest.schemas import (
    ContentIn,
    ContentOut,
    KeyFilter,
    KeyIn,
    KeyOut,
    KeyPatch,
    NewKeyOut,
    RotationIn,
    TeamId,
    TeamIn,
    TeamOut,
    TeamPatch,
)
from proxy.usage_pages.askers import NeedsSight

keys = Router(tags=["keys"])
teams = Router(tags=["teams"])

VIEW_KEYS, ADD_KEYS, CHANGE_KEYS = (
    Needs(f"proxy.{verb}_apikey") for verb in ("view", "add", "change")
)
VIEW_TEAMS, ADD_TEAMS, CHANGE_TEAMS, DELETE_TEAMS = (
    Needs(f"proxy.{verb}_team") for verb in ("view", "add", "change", "delete")
)


@keys.get("", auth=VIEW_KEYS, response=Paged[KeyOut])
def list_keys(request: HttpRequest, page: Query[KeyFilter]) -> dict[str, Any]:
    return page.of(editing.keys().filter(**page.conditions()))


@keys.post("", auth=ADD_KEYS, response={201: NewKeyOut})
def create_key(request: HttpRequest, body: KeyIn) -> Status[ApiKey]:
    """The answer holds the key itself, this once."""
    return Status(201, editing.issue_key(asker_of(request), **body.model_dump()))


@keys.patch("/{str:public_id}", auth=CHANGE_KEYS, response=KeyOut)
def change_key(request: HttpRequest, public_id: str, body: KeyPatch) -> ApiKey:
    """The gateway's processes know it within a second."""
    return editing.change_key(public_id, asker_of(request), body.model_dump(exclude_unset=True))


@keys.post("/{str:public_id}/revoke", auth=CHANGE_KEYS, response=KeyOut)
def revoke_key(request: HttpRequest, public_id: str) -> ApiKey:
    """Refused from now on; the gateway's processes know it within a second."""
    return editing.revoke_key(public_id, asker_of(request))


@keys.post("/{str:public_id}/rotate", auth=CHANGE_KEYS, response={201: NewKeyOut})
def rotate_key(request: HttpRequest, public_id: str, body: RotationIn) -> Status[ApiKey]:
    """A successor with all that the key is; the answer holds it, this once. The old one works
    beside it until its grace ends."""
    made = rotation.rotate_key(public_id, asker_of(request), **body.model_dump())
    return Status(201, made)


@teams.get("", auth=VIEW_TEAMS, response=Paged[TeamOut])
def list_teams(request: HttpRequest, page: Query[Page]) -> dict[str, Any]:
    return page.of(editing.teams())


@teams.post("", auth=ADD_TEAMS, response={201: TeamOut})
def create_team(request: HttpRequest, body: TeamIn) -> Status[Team]:
    return Status(201, editing.create_team(asker_of(request), **body.model_dump()))


@teams.patch("/{int:id}", auth=CHANGE_TEAMS, response=TeamOut)
def change_team(request: HttpRequest, id: Path[TeamId], body: TeamPatch) -> Team:
    """How it stands in the queue; the gateway's processes know it within a second."""
    return editing.change_team(id, asker_of(request), body.model_dump(exclude_unset=True))


@teams.put("/{int:id}/content", auth=NeedsSight(), response=ContentOut)
def switch_team_content(request: HttpRequest, id: Path[TeamId], body: ContentIn) -> Team:
    """Whether its prompts and answers are stored from now on; for its leads too. Its members see
    it; each process of the gateway knows it within a second."""
    return switch_content(id, asker_of(request), **body.model_dump())


@teams.delete("/{int:id}", auth=DELETE_TEAMS, response={204: None})
def delete_team(request: HttpRequest, id: Path[TeamId]) -> Status[None]:
    """With its keys and memberships; the gateway's processes know it within a second."""
    editing.delete_team(id, asker_of(request))
    return Status(204, None)
