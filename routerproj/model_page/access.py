"""Who may see which of it."""

from __future__ import annotations

from typing import Any

from proxy.usage_pages.sight import SEE_ALL

RUNS = "scheduler.view_instancerecord"
DECISIONS = "scheduler.view_decisionrecord"


def may_look(user: Any) -> bool:
    """As with the preset's own page."""
    is_in = user.is_active and user.is_staff
    return is_in and any(user.has_perm(f"models_registry.{verb}_preset") for verb in VERBS)


VERBS = ("view", "change")


def may_see_runs(user: Any) -> bool:
    """Loads and logs, in which clients may be quoted: as with the record of instances."""
    return may_look(user) and bool(user.has_perm(RUNS))


def may_see_usage(user: Any) -> bool:
    return bool(user.has_perm(SEE_ALL))
