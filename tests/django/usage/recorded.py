"""Requests as the gateway records them, sums and all."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from proxy.models import UsageRecord
from proxy.rollups.raising import roll_up

NOON = datetime(2030, 1, 31, 12, 30, tzinfo=UTC)
_numbers = itertools.count(1)


def a_request(**fields: Any) -> UsageRecord:
    """Answered, of team `default`. Not stored yet."""
    number = next(_numbers)
    known = {
        "record": f"r{number}", "request_id": f"req-{number}", "at": NOON, "team": "default",
        "team_id": 1, "key": "aaaaaaaa", "key_name": "laptop", "user": "anna", "asked": "gpt",
        "preset": "alpha", "path": "/v1/chat/completions", "dialect": "openai", "status": 200,
        "read": 100, "cached": 40, "answered": 10, "charged": True, "queue_wait": 0.5,
        "load_wait": 0.25, "first_token": 0.75, "duration": 2.0, "upstream": True,
    }  # fmt: skip
    return UsageRecord(**{**known, **fields})


def recorded(*requests: UsageRecord) -> None:
    """As the writer does it: in one transaction with the sums."""
    UsageRecord.objects.bulk_create(requests)
    roll_up((each.at, each) for each in requests)


def many_requests(count: int, seed: int, days: int = 3) -> list[UsageRecord]:
    """Of all kinds."""
    dice = random.Random(seed)
    return [_any_request(dice, days) for _ in range(count)]


def _any_request(dice: random.Random, days: int) -> UsageRecord:
    team = dice.choice([(1, "default"), (2, "builders"), (3, "builders"), (0, "")])
    key = dice.choice(["aaaaaaaa", "bbbbbbbb", ""])
    outcome: dict[str, Any] = dice.choice(
        [
            {},
            {},
            {"status": 429, "code": "queue_full", "upstream": False, "charged": False},
            {"status": 502, "code": "model_died", "final": dice.random() < 0.5, "charged": False},
            {"status": 400, "charged": False},
            {"status": 499, "code": "client_gone", "estimated": True},
            {"read": None, "cached": None, "answered": None, "first_token": None},
        ]
    )
    return a_request(
        at=NOON - timedelta(seconds=dice.randrange(days * 86400)),
        team_id=team[0],
        team=team[1],
        key=key,
        user={"aaaaaaaa": "anna", "bbbbbbbb": "bert", "": ""}[key],
        preset=dice.choice(["alpha", "beta", "user/repo:Q4", ""]),
        **{"read": dice.randrange(5000), "answered": dice.randrange(900), **outcome},
        duration=dice.lognormvariate(0, 2),
    )


def in_batches(requests: Sequence[UsageRecord], size: int) -> None:
    for at in range(0, len(requests), size):
        recorded(*requests[at : at + size])
