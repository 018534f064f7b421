"""How a team stands in the queue goes along with each of its requests."""

from __future__ import annotations

from proxy.callers import Caller, Policy
from scheduler.protocol import NO_OWN_NAMES, OwnNames

from .asking import Exchange, chat
from .fakes import Connection, Received


async def answers(received: Received, child: Connection) -> None:
    await child.answer(b"{}")


class Keys:
    def __init__(self) -> None:
        self.policy = Policy(2.5, "high")
        self.aliases: dict[str, str] = {}

    def as_known(self, caller: Caller) -> Caller:
        return caller

    async def identify(self, headers: object, by_session: object = None) -> Caller:
        return Caller("blue", "aaaaaaaa", self.policy, self.aliases)

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


async def test_each_request_says_where_its_keys_own_aliases_lead_and_goes_as_it_came(house):
    keys = Keys()
    async with house(answers, keys=keys) as h:
        await Exchange(h.app, body=chat("gpt-4o")).end()
        keys.aliases = {"gpt-4*": "tiny", "*": "other"}
        keys.policy = Policy(aliases={"gpt-4o": "teams"})
        await Exchange(h.app, body=chat("gpt-4o")).end()
        await Exchange(h.app, body=chat("gpt-4.1")).end()
        await Exchange(h.app, body=b"{}").end()

    told = [(asked.preset, asked.own) for asked in h.scheduler.asked]
    assert told == [
        ("gpt-4o", NO_OWN_NAMES),
        ("gpt-4o", OwnNames(exact="teams")),
        ("gpt-4.1", OwnNames(wildcard="tiny", default="other")),
        ("", OwnNames(default="other")),
    ]
    assert [received.body for received in h.child.received][1:] == [
        chat("gpt-4o"), chat("gpt-4.1"), b"{}",
    ]  # fmt: skip
