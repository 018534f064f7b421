"""A8: of a model that is never idle, teams are served tokens as their weights say, whatever they
ask for at a time and however many of them ask."""

from __future__ import annotations

import pytest

from .stage import TOKENS_PER_SECOND, Client, Stage
from .story import preset

WEIGHTS = {"x": 3.0, "y": 1.0}
WARM_UP, END = 300.0, 3900.0


def tokens_served(stage: Stage, tenant: str) -> float:
    return TOKENS_PER_SECOND * stage.seconds_served(tenant, since=WARM_UP)


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize(
    ("seconds", "clients"),
    [
        ({"x": 2.0, "y": 2.0}, {"x": 16, "y": 16}),
        ({"x": 0.5, "y": 4.0}, {"x": 16, "y": 16}),
        ({"x": 4.0, "y": 0.5}, {"x": 16, "y": 16}),
        ({"x": 2.0, "y": 2.0}, {"x": 8, "y": 24}),
        ({"x": 2.0, "y": 2.0}, {"x": 64, "y": 8}),
    ],
    ids=["alike", "the light one's are long", "the heavy one's are long", "few, many", "many, few"],
)
def test_tokens_tend_to_the_weights_within_five_percent(slots, seconds, clients):
    stage = Stage(preset("a", parallel=slots))
    for tenant, weight in WEIGHTS.items():
        for number in range(clients[tenant]):
            stage.comes(0.01 * number, Client("a", seconds[tenant], tenant=tenant, weight=weight))
    stage.run(END)

    ratio = tokens_served(stage, "x") / tokens_served(stage, "y")

    assert ratio == pytest.approx(3.0, rel=0.05)
