"""What every tier shares: hypothesis profiles, chosen with HYPOTHESIS_PROFILE, and passwords that
are hashed at once."""

from __future__ import annotations

import os

import pytest
from django.conf import settings as django_settings
from hypothesis import HealthCheck, Phase, settings

# Every run; every night; and a quick yes or no without shrinking.
_slow_machines = [HealthCheck.too_slow]
settings.register_profile(
    "quick", max_examples=50, deadline=None, suppress_health_check=_slow_machines
)
settings.register_profile("thorough", max_examples=5000, stateful_step_count=80, deadline=None)
settings.register_profile(
    "verdict", max_examples=1000, stateful_step_count=60, deadline=None, phases=[Phase.generate]
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(PROFILE)

# daphne is not asked for what only uvicorn can do; two workers not for what each answers as one
# does, and neither of them for what no web process has a part in: but every night.
NOT_ASKED: dict[str, tuple[str, ...]] = {"uvicorn_only": ("daphne",)}
if PROFILE != "thorough":
    NOT_ASKED |= {"one_worker": ("two-workers",), "any_server": ("daphne", "two-workers")}


def pytest_configure(config: pytest.Config) -> None:
    """A hash as it is made for people takes half a second, for each account of each test."""
    django_settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    from tests.support.flushing import flush_once, flush_the_trail_too  # which need settings
    from tests.support.static_files import look_for_them_once
    from tests.support.tables import begin_with_tables

    flush_the_trail_too()
    flush_once()
    look_for_them_once()
    begin_with_tables()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What a mark says of a way of serving: such a pair is no test, or no further one."""
    left_out = [item for item in items if _left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _left_out(item: pytest.Item) -> bool:
    asked = getattr(getattr(item, "callspec", None), "params", {}).values()
    return any(
        item.get_closest_marker(mark) and any(way in asked for way in ways)
        for mark, ways in NOT_ASKED.items()
    )
