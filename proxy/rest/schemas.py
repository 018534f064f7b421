"""What the management API takes and gives of teams, members and keys. A digest is never in it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from ninja import Schema
from pydantic import Field, StrictBool, StrictFloat

from models_registry.rest.schemas import Urgency
from models_registry.shapes import Moment, Page, Strict
from proxy import allowed
from proxy.models import DEFAULT_TEAM, LEAST_WEIGHT, MOST_WEIGHT, Membership
from proxy.models.teams import MOST_CONTENT_DAYS
from proxy.own_aliases import MOST
from proxy.rotation import MOST_GRACE_HOURS, USUAL_GRACE_HOURS
from proxy.scopes import Scope, usual

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


AllowedModels = Annotated[
    list[str],
    Field(
        description="Names of presets or aliases; with * at its end all that begin so. Of a key "
        "and its team each that has a list must allow a model. Empty: all.",
        max_length=allowed.MOST,
    ),
]


Scopes = Annotated[
    list[Scope],
    Field(description="What it is good for; `admin` is all of them and the management API."),
]


Role = Membership.Role


UserName = Annotated[str, Field(min_length=1, max_length=150)]


def _if_named(**described: Any) -> Any:
    """A field of a patch that cannot be null: left out, it stays as it is."""
    return Field(None, **described)


class TeamIn(Strict):
    name: Name
    weight: Weight = Field(1.0, description="Its share while others wait as well.")
    priority: Urgency = "normal"
    aliases: OwnAliases = {}
    allowed: AllowedModels = []
    member_scopes: Scopes = Field(
        default_factory=usual, description="What its members may give keys of their own."
    )


class TeamPatch(Strict):
    """What is left out stays as it is."""

    weight: Weight = _if_named(description="Its share while others wait as well.")
    priority: Urgency = _if_named()
    aliases: OwnAliases = _if_named()
    allowed: AllowedModels = _if_named()
    member_scopes: Scopes = _if_named()


Days = Annotated[int, Field(ge=1, le=MOST_CONTENT_DAYS)]


class ContentIn(Strict):
    stored: StrictBool = Field(description="Prompts and answers of the team are stored, redacted.")
    days: Days | None = Field(None, description="For how long; null: as it was.")


class ContentOut(Schema):
    team: str
    stored: bool
    days: int

    @staticmethod
    def resolve_team(row: Any) -> str:
        return str(row.name)

    @staticmethod
    def resolve_stored(row: Any) -> bool:
        return bool(row.keeps_content)

    @staticmethod
    def resolve_days(row: Any) -> int:
        return int(row.content_days)


class TeamOut(Schema):
    id: int
    name: str
    weight: float
    priority: str
    aliases: dict[str, str]
    allowed: list[str]
    member_scopes: list[str]
    keeps_content: bool = Field(description="Prompts and answers are stored: /teams/{id}/content.")
    content_days: int
    created_at: datetime


class MemberIn(Strict):
    user: UserName = Field(description="The name of one of the admin's users.")
    team: Name = Field(description="The name of one of /teams.")
    role: Role = Role.MEMBER


class MemberPatch(Strict):
    role: Role


class MemberOut(Schema):
    id: int
    user: str
    team: str
    role: str
    created_at: datetime

    @staticmethod
    def resolve_user(row: Any) -> str:
        return str(row.user.get_username())

    @staticmethod
    def resolve_team(row: Any) -> str:
        return str(row.team.name)


class MemberFilter(Page):
    team: str = Field("", max_length=100, description="Of this team only.")
    user: str = Field("", max_length=150, description="Of this person only.")

    def conditions(self) -> dict[str, Any]:
        asked = {"team__name": self.team, "user__username": self.user}
        return {field: name for field, name in asked.items() if name}


class KeyIn(Strict):
    name: Name = Field(description="Who or what will use it.")
    team: Name = Field(DEFAULT_TEAM, description="The name of one of /teams.")
    user: UserName | None = Field(
        None, description="Whose it is, for good: a member of the team; null: a service's."
    )
    scopes: Scopes = Field(default_factory=usual)
    expires_at: Moment | None = Field(None, description="Refused from then on; null: never.")
    aliases: OwnAliases = {}
    allowed: AllowedModels = []


class KeyPatch(Strict):
    """What is left out stays as it is."""

    name: Name = _if_named(description="Who or what uses it.")
    team: Name = _if_named(description="A person's key goes only where they are a member.")
    scopes: Scopes = _if_named()
    expires_at: Moment | None = Field(None, description="Refused from then on; null: never.")
    aliases: OwnAliases = _if_named()
    allowed: AllowedModels = _if_named()


class RotationIn(Strict):
    grace_hours: float = Field(
        USUAL_GRACE_HOURS,
        ge=0,
        le=MOST_GRACE_HOURS,
        allow_inf_nan=False,
        description="How long the old key works beside the new one.",
    )
    expires_at: Moment | None = Field(
        None, description="Of the new one; null: it lives as long as the old one was to live."
    )


class KeyOut(Schema):
    public_id: str = Field(description="The part of the key after `ck_`.")
    name: str
    team: str
    user: str | None = Field(description="Whose it is; null: a service's.")
    scopes: list[str]
    aliases: dict[str, str]
    allowed: list[str]
    in_session: bool = Field(
        description="Of the playground: it has no text, and cannot be rotated."
    )
    replaces: str | None = Field(description="The key whose place it takes, after a rotation.")
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="Exact to a minute.")

    @staticmethod
    def resolve_team(row: Any) -> str:
        return str(row.team.name)

    @staticmethod
    def resolve_user(row: Any) -> str | None:
        return None if row.user is None else str(row.user.get_username())

    @staticmethod
    def resolve_replaces(row: Any) -> str | None:
        return None if row.replaces is None else str(row.replaces.public_id)


class NewKeyOut(KeyOut):
    key: str = Field(description="The key itself. It cannot be shown again.")

    @staticmethod
    def resolve_key(row: Any) -> str:
        return str(row.text)


class KeyFilter(Page):
    team: str = Field("", max_length=100, description="Of this team only.")
    user: str = Field("", max_length=150, description="Of this person only.")
    revoked: bool | None = None

    def conditions(self) -> dict[str, Any]:
        named = {"team__name": self.team, "user__username": self.user}
        asked: dict[str, Any] = {field: name for field, name in named.items() if name}
        if self.revoked is not None:
            asked["revoked_at__isnull"] = not self.revoked
        return asked
