"""What is saved of conversations when their model has to go, from the environment."""

from __future__ import annotations

from routerproj.environment import Environment
from scheduler.kv_rule import KvRule


def kv_budget(env: Environment) -> int | None:
    """Bytes of files, in all. None: 8 GiB, or a twentieth of what is free on that disk; 0: nothing
    is saved."""
    return env.optional_whole("CORRAL_KV_SAVES", most=2**60)


def kv_rule(env: Environment) -> KvRule:
    return KvRule(
        wait_seconds=env.seconds("CORRAL_KV_SAVE_WAIT", default=1.0),
        least_tokens=env.whole("CORRAL_KV_SAVE_TOKENS", default=256, least=1),
        lasts_seconds=env.seconds("CORRAL_KV_SAVE_AGE", default=86_400.0, least=1.0),
        isolated=env.flag("CORRAL_KV_ISOLATION", default=False),
    )
