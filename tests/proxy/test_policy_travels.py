"""How a team stands in the queue goes along with each of its requests."""

from __future__ import annotations

from proxy.keys import Caller, Policy

from .asking import Exchange, chat
from .fakes import Connection, Received


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b"{}")


class Keys:
    def __init__(self) -> None:
        self.policy = Policy(2.5, "high")

    async def identify(self, headers: object) -> Caller:
        return Caller("blue", "aaaaaaaa", self.policy)

    async def close(self) -> None:
        pass


async def test_each_request_is_asked_for_with_its_teams_weight_and_priority(house):
    keys = Keys()
    async with house(answers, keys=keys) as h:
        await Exchange(h.app, body=chat()).end()
        keys.policy = Policy(0.5, "low")
        await Exchange(h.app, body=chat()).end()

    told = [(asked.tenant, asked.weight, asked.priority) for asked in h.scheduler.asked]
    assert told == [("blue", 2.5, "high"), ("blue", 0.5, "low")]
