"""The routes of who is in which team."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Path, Query, Router, Status

from models_registry.access import Needs, asker_of
from models_registry.shapes import Paged
from proxy import members as editing
from proxy.models import Membership
from proxy.rest.schemas import MemberFilter, MemberIn, MemberOut, MemberPatch, TeamId

members = Router(tags=["teams"])

VIEW, ADD, CHANGE, DELETE = (
    Needs(f"proxy.{verb}_membership") for verb in ("view", "add", "change", "delete")
)


@members.get("", auth=VIEW, response=Paged[MemberOut])
def list_members(request: HttpRequest, page: Query[MemberFilter]) -> dict[str, Any]:
    return page.of(editing.members().filter(**page.conditions()))


@members.post("", auth=ADD, response={201: MemberOut})
def add_member(request: HttpRequest, body: MemberIn) -> Status[Membership]:
    return Status(201, editing.add_member(asker_of(request), **body.model_dump()))


@members.patch("/{int:id}", auth=CHANGE, response=MemberOut)
def change_member(request: HttpRequest, id: Path[TeamId], body: MemberPatch) -> Membership:
    return editing.change_member(id, asker_of(request), body.model_dump())


@members.delete("/{int:id}", auth=DELETE, response={204: None})
def remove_member(request: HttpRequest, id: Path[TeamId]) -> Status[None]:
    """Their keys in the team are refused; the gateway's processes know it within a second."""
    editing.remove_member(id, asker_of(request))
    return Status(204, None)
