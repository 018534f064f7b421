"""Single sign-on's settings, out of the environment. docs/sign-on.md explains each.

What a group of the provider's gives is written as JSON, since names of groups may hold anything:
    {"ml": "member:builders", "ml-leads": ["lead:builders", "staff"], "ops": "superuser"}
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from routerproj.environment import Environment

LONGEST_ISSUER = 200
ROLES = ("member", "lead")
FLAGS = ("staff", "superuser")


@dataclass(frozen=True, slots=True)
class Given:
    """What one group gives. `teams` is role by name."""

    teams: dict[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SignOn:
    """`open_to_all`: also who is in none of the groups, with an account and nothing else.
    `days`: who has not come for so many leaves their teams; 0: nobody does."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str
    scopes: tuple[str, ...]
    groups_claim: str
    groups: dict[str, Given]
    open_to_all: bool
    days: int

    @property
    def teams(self) -> frozenset[str]:
        """Those whose membership is the provider's to say."""
        return frozenset(team for given in self.groups.values() for team in given.teams)

    @property
    def gives_flags(self) -> bool:
        return any(given.flags for given in self.groups.values())

    def given_to(self, groups: frozenset[str]) -> Given | None:
        """All that they give together; None for who may not come in."""
        found = [self.groups[each] for each in groups if each in self.groups]
        if not found:
            return Given() if self.open_to_all else None
        teams: dict[str, str] = {}
        for given in found:
            for team, role in given.teams.items():
                if teams.get(team) != "lead":
                    teams[team] = role
        return Given(teams, frozenset[str]().union(*(given.flags for given in found)))


def sign_on_settings(env: Environment) -> SignOn | None:
    """None when it is off. Raises ImproperlyConfigured."""
    issuer = env.checked("CORRAL_OIDC_ISSUER", check=check_issuer)
    if not issuer:
        return None
    found = SignOn(
        issuer=issuer,
        client_id=_needed(env, "CORRAL_OIDC_CLIENT_ID"),
        client_secret=_secret(env),
        name=env.text("CORRAL_OIDC_NAME", default="Single sign-on"),
        scopes=tuple(env.words("CORRAL_OIDC_SCOPES", default=("openid", "profile", "email"))),
        groups_claim=env.text("CORRAL_OIDC_GROUPS_CLAIM", default="groups"),
        groups=parse_groups(env.checked("CORRAL_OIDC_GROUPS", check=parse_groups)),
        open_to_all=env.flag("CORRAL_OIDC_OPEN", default=False),
        days=env.whole("CORRAL_OIDC_DAYS", default=30, most=3650),
    )
    if "openid" not in found.scopes:
        raise ImproperlyConfigured("CORRAL_OIDC_SCOPES has to hold openid")
    if not (found.groups or found.open_to_all):
        raise ImproperlyConfigured(
            "CORRAL_OIDC_GROUPS names no group, so nobody could come in: name some, or set "
            "CORRAL_OIDC_OPEN=1 for everybody whom the provider knows"
        )
    return found


def sign_on() -> SignOn:
    """Where it is on."""
    found = settings.CORRAL_OIDC
    assert found is not None
    return found


def local_login(env: Environment, found: SignOn | None) -> str:
    """Whose passwords are taken: of `all`, of `staff`, or nobody's: `off`."""
    wanted = env.choice("CORRAL_LOCAL_LOGIN", default="all", among=("all", "staff", "off"))
    if found is None and wanted != "all":
        raise ImproperlyConfigured(
            f"CORRAL_LOCAL_LOGIN={wanted!r} needs single sign-on (CORRAL_OIDC_ISSUER): "
            "else nobody could log in"
        )
    return wanted


def check_issuer(text: str) -> None:
    """Raises ValueError."""
    parts = urlsplit(text)
    if not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"{text!r} is no issuer's address: https://sso.example.com/realms/team")
    if parts.scheme != "https" and not (parts.scheme == "http" and _on_loopback(parts.hostname)):
        raise ValueError(f"{text!r} has to be https: whoever is on the way could let anybody in")
    if len(text) > LONGEST_ISSUER:
        raise ValueError(f"an issuer of more than {LONGEST_ISSUER} characters cannot be kept")


def parse_groups(text: str) -> dict[str, Given]:
    """Raises ValueError."""
    if not text:
        return {}
    wanted = 'a JSON object such as {"ml": "member:builders", "ops": ["lead:builders", "staff"]}'
    try:
        found = json.loads(text)
    except ValueError:
        raise ValueError(f"it is not {wanted}") from None
    if not isinstance(found, dict):
        raise ValueError(f"it is not {wanted}")
    return {group: _given(group, said) for group, said in found.items()}


def _given(group: str, said: Any) -> Given:
    words = [said] if isinstance(said, str) else said
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        raise ValueError(f"{group!r} has to give a text or a list of them")
    teams: dict[str, str] = {}
    for word in words:
        role, colon, team = word.partition(":")
        if colon and role in ROLES and team:
            teams[team] = role
        elif word not in FLAGS:
            raise ValueError(
                f"{group!r} gives {word!r}: write member:TEAM, lead:TEAM, staff or superuser"
            )
    return Given(teams, frozenset(word for word in words if word in FLAGS))


def _needed(env: Environment, name: str) -> str:
    if text := env.text(name):
        return text
    raise ImproperlyConfigured(f"CORRAL_OIDC_ISSUER is set, so {name} has to be as well")


def _secret(env: Environment) -> str:
    """Itself, or in a file, so that it stands in no environment."""
    path = env.text("CORRAL_OIDC_CLIENT_SECRET_FILE")
    if not path:
        return _needed(env, "CORRAL_OIDC_CLIENT_SECRET")
    try:
        text = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"CORRAL_OIDC_CLIENT_SECRET_FILE: {error}") from error
    if not text:
        raise ImproperlyConfigured(f"CORRAL_OIDC_CLIENT_SECRET_FILE: {path} is empty")
    return text


def _on_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def turned_on(names: dict[str, Any], found: SignOn) -> None:
    """Into settings.py's own names, for the processes that show pages: django-allauth's, which is
    asked for its protocol alone, not for its pages or its accounts."""
    names["INSTALLED_APPS"] += [
        "allauth",
        "allauth.account",
        "allauth.socialaccount",
        "routerproj.sign_on",
    ]
    names["MIDDLEWARE"] += ["allauth.account.middleware.AccountMiddleware"]
    options = names["TEMPLATES"][0]["OPTIONS"]
    options["context_processors"] += ["routerproj.sign_on.context.sign_on"]
    if names["CORRAL_LOCAL_LOGIN"] != "all":
        names["AUTHENTICATION_BACKENDS"][-1] = "proxy.account.backends.FewPasswords"
    names["ACCOUNT_EMAIL_VERIFICATION"] = "none"
    names["SOCIALACCOUNT_ADAPTER"] = "routerproj.sign_on.adapter.Arrivals"
    names["SOCIALACCOUNT_STORE_TOKENS"] = False
    names["SOCIALACCOUNT_PROVIDERS"] = {
        "oidc": {
            "APPS": [
                {
                    "provider_id": found.issuer,
                    "name": found.name,
                    "client_id": found.client_id,
                    "secret": found.client_secret,
                    "settings": {
                        "server_url": found.issuer.rstrip("/"),
                        "oauth_pkce_enabled": True,
                    },
                }
            ]
        }
    }
