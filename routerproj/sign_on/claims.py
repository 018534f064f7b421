"""What claims say. Pure."""

from __future__ import annotations

from typing import Any


def claim_in(claims: dict[str, Any], path: str) -> Any:
    """By its name, or by names with dots between them where objects lie in objects (Keycloak's
    realm_access.roles); None when it is not there. A name that holds dots itself comes first."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found


def groups_in(claims: dict[str, Any], path: str) -> frozenset[str]:
    """A list of names, or one name. Anything else is none."""
    found = claim_in(claims, path)
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, list):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str))


def has_second_factor(claims: dict[str, Any]) -> bool:
    """Whether the provider says that more than a password was shown (RFC 8176)."""
    methods = claims.get("amr")
    return isinstance(methods, list) and "mfa" in methods
