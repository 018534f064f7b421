"""What every tier shares: hypothesis profiles, chosen with HYPOTHESIS_PROFILE."""

from __future__ import annotations

import os

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
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
