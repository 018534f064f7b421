"""What the management API takes and gives of teams and keys. A digest is never in it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import Field, StrictFloat

from models_registry.rest.schemas import Urgency
from models_registry.shapes import Moment, Page, Strict
from proxy.models import DEFAULT_TEAM, LEAST_WEIGHT, MOST_WEIGHT
from proxy.own_aliases import MOST

Name = Annotated[str, Field(min_length=1, max_length=100)]


Weight = Annotated[StrictFloat, Field(ge=LEAST_WEIGHT, le=MOST_WEIGHT, allow_inf_nan=False)]


TeamId = Annotated[int, Field(ge=1, le=2**63 - 1)]


OwnAliases = Annotated[
    dict[str, str],
    Field(
        description="What a client writes, to a preset's name or an alias; they go before "
        "everybody's. With * at its end all names that begin so, * alone is the default.",
        max_length=MOST,
    ),
]


def _if_named(**described: Any) -> Any:
    """A field of a patch that cannot be null: left out, it stays as it is."""
    return Field(None, **described)


class TeamIn(Strict):
    name: Name
    weight: Weight = Field(1.0, description="Its share while others wait as well.")
    priority: Urgency = "normal"
    aliases: OwnAliases = {}


class TeamPatch(Strict):
    """What is left out stays as it is."""

    weight: Weight = _if_named(description="Its share while others wait as well.")
    priority: Urgency = _if_named()
    aliases: OwnAliases = _if_named()


class TeamOut(Schema):
    id: int
    name: str
    weight: float
    priority: str
    aliases: dict[str, str]
    created_at: datetime


class KeyIn(Strict):
    name: Name = Field(description="Who or what will use it.")
    team: Name = Field(DEFAULT_TEAM, description="The name of one of /teams.")
    scope: Literal["inference", "admin"] = "inference"
    expires_at: Moment | None = Field(None, description="Refused from then on; null: never.")
    aliases: OwnAliases = {}


class KeyPatch(Strict):
    """What is left out stays as it is."""

    aliases: OwnAliases = _if_named()


class KeyOut(Schema):
    public_id: str = Field(description="The part of the key after `ck_`.")
    name: str
    team: str
    scope: str
    aliases: dict[str, str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="Exact to a minute.")

    @staticmethod
    def resolve_team(row: Any) -> str:
        return str(row.team.name)


class NewKeyOut(KeyOut):
    key: str = Field(description="The key itself. It cannot be shown again.")

    @staticmethod
    def resolve_key(row: Any) -> str:
        return str(row.text)


class KeyFilter(Page):
    team: str = Field("", max_length=100, description="Of this team only.")
    revoked: bool | None = None

    def conditions(self) -> dict[str, Any]:
        asked: dict[str, Any] = {"team__name": self.team} if self.team else {}
        if self.revoked is not None:
            asked["revoked_at__isnull"] = not self.revoked
        return asked
