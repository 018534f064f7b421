"""A second gateway, or a second scheduler, on a state folder that is in use."""

from __future__ import annotations

import pytest

from tests.support.gateway import Gateway

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["runscheduler"]])
def test_the_second_refuses_and_leaves_the_first_alone(shared: Gateway, command: list[str]) -> None:
    before = shared.pid("scheduler")

    second = shared.manage(*command)

    assert second.returncode != 0
    assert "CORRAL_VAR" in second.stdout + second.stderr
    assert shared.pid("scheduler") == before
    assert shared.client.chat("alpha").status == 200
