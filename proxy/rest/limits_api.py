"""The routes of limits."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Path, Query, Router, Schema, Status
from pydantic import Field, StrictInt

from models_registry.access import Needs, asker_of
from models_registry.shapes import Page, Paged, Strict
from proxy.limits import editing
from proxy.limits.sight import limits_seen_by
from proxy.limits.used import Used, used_of
from proxy.models import Limit
from proxy.models.limits import MOST_REQUESTS, MOST_TOKENS
from proxy.rest.schemas import Name, TeamId
from proxy.usage_pages.askers import NeedsSight

limits = Router(tags=["limits"])

VIEW, ADD, CHANGE, DELETE = (
    Needs(f"proxy.{verb}_limit") for verb in ("view", "add", "change", "delete")
)

_NULL = "null: no limit; 0: nothing is allowed."
Requests = Annotated[StrictInt, Field(ge=0, le=MOST_REQUESTS)]
Tokens = Annotated[StrictInt, Field(ge=0, le=MOST_TOKENS)]


class Figures(Strict):
    requests_per_minute: Requests | None = Field(
        None, description=f"That come in during any 60 seconds; {_NULL}"
    )
    tokens_per_minute: Tokens | None = Field(
        None, description=f"Read (but for cached ones) and answered; {_NULL}"
    )
    concurrent: Requests | None = Field(None, description=f"That wait or are answered; {_NULL}")
    tokens_per_day: Tokens | None = Field(None, description=f"From 00:00 UTC; {_NULL}")
    tokens_per_month: Tokens | None = Field(None, description=f"From the 1st; {_NULL}")


class LimitIn(Figures):
    team: Name | None = Field(None, description="The name of one of /teams: its keys together.")
    key: Annotated[str, Field(min_length=1, max_length=8)] | None = Field(
        None, description="The public id of one of /keys, with those that replace it."
    )
    model: str = Field(
        "", max_length=200, description="A preset's name or an alias; empty: all models together."
    )


class LimitPatch(Figures):
    """What is left out stays as it is."""


class LimitOut(Schema):
    id: int
    team: str | None
    key: str | None = Field(description="Its public id.")
    model: str
    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrent: int | None
    tokens_per_day: int | None
    tokens_per_month: int | None
    created_at: datetime

    @staticmethod
    def resolve_team(row: Any) -> str | None:
        return None if row.team is None else str(row.team.name)

    @staticmethod
    def resolve_key(row: Any) -> str | None:
        return None if row.key is None else str(row.key.public_id)


class UsedOut(Schema):
    figure: str = Field(description="`requests_per_minute` and so on, as in /limits.")
    limit: int
    used: int = Field(description="With what requests under way have reserved.")
    remaining: int
    resets_at: datetime | None = Field(
        description="When all of it will be there again, if nothing more comes; null: all of it "
        "is, or nobody knows when requests under way end."
    )


class CountedOut(Schema):
    id: int
    team: str | None
    key: str | None = Field(description="Its public id.")
    model: str
    figures: list[UsedOut]


class LimitFilter(Page):
    team: str = Field("", max_length=100, description="Of this team only.")
    key: str = Field("", max_length=8, description="Of this key only.")
    model: str = Field("", max_length=200, description="For this model only.")

    def conditions(self) -> dict[str, Any]:
        asked = {"team__name": self.team, "key__public_id": self.key, "model": self.model}
        return {field: value for field, value in asked.items() if value}


@limits.get("", auth=VIEW, response=Paged[LimitOut])
def list_limits(request: HttpRequest, page: Query[LimitFilter]) -> dict[str, Any]:
    return page.of(editing.limits().filter(**page.conditions()))


@limits.get("/counted", auth=NeedsSight(), response=Paged[CountedOut])
def list_counted(request: HttpRequest, page: Query[LimitFilter]) -> dict[str, Any]:
    """How much is used and left of each, now: of all limits to admins, to others of those of their
    keys and teams."""
    found = page.of(limits_seen_by(asker_of(request)).filter(**page.conditions()))
    used = used_of(found["items"])
    return {**found, "items": [_counted(row, used[row.pk]) for row in found["items"]]}


def _counted(row: Limit, figures: list[Used]) -> dict[str, Any]:
    return {
        "id": row.pk,
        "team": row.team and row.team.name,
        "key": row.key and row.key.public_id,
        "model": row.model,
        "figures": figures,
    }


@limits.post("", auth=ADD, response={201: LimitOut})
def add_limit(request: HttpRequest, body: LimitIn) -> Status[Limit]:
    """It counts from now on; the gateway's processes know it within a second."""
    return Status(201, editing.add_limit(asker_of(request), **body.model_dump()))


@limits.patch("/{int:id}", auth=CHANGE, response=LimitOut)
def change_limit(request: HttpRequest, id: Path[TeamId], body: LimitPatch) -> Limit:
    """What has been counted until now stays."""
    return editing.change_limit(id, asker_of(request), body.model_dump(exclude_unset=True))


@limits.delete("/{int:id}", auth=DELETE, response={204: None})
def remove_limit(request: HttpRequest, id: Path[TeamId]) -> Status[None]:
    editing.remove_limit(id, asker_of(request))
    return Status(204, None)
