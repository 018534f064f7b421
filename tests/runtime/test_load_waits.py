"""How long a request has waited for a load, of all that it has waited."""

from __future__ import annotations

import pytest

from scheduler.core.values import InstanceId, RequestId
from scheduler.runtime.load_waits import load_wait

from .standing_in import preset, staged


@pytest.mark.parametrize(
    ("arrived", "began", "loaded", "waited"),
    [
        (10.0, 12.0, 15.0, 3.0),  # it queued for two seconds first
        (13.0, 12.0, 15.0, 2.0),  # the load was under way
        (20.0, 12.0, 15.0, 0.0),  # long loaded: it waited for a slot, if at all
    ],
)
async def test_of_a_wait_only_the_load_counts(arrived, began, loaded, waited):
    async with staged(preset("a", parallel=4)) as stage:
        run = await stage.ask("a").run()
        request = RequestId(1)
        asked = stage.owner.waiting.get(request)
        instance = stage.owner.planner.instances[run.instance]
        asked.arrived, instance.load_began_at, instance.loaded_at = arrived, began, loaded

        assert load_wait(stage.owner, request, run) == waited
        del stage.owner.planner.instances[InstanceId(run.instance)]
        assert load_wait(stage.owner, request, run) == 0.0
        stage.owner.planner.instances[InstanceId(run.instance)] = instance
