"""A body on its way to whoever answers: with no address of media left in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from proxy.body import Body, Room, kept_body
from proxy.conf import ProxyConfig
from proxy.media.fetching import Fetched, Fetching
from proxy.media.inlining import inlined
from proxy.media.looking import MOST_OBJECTS, Address, TooMany, addresses_in
from proxy.parsing import Parsing
from proxy.watch import Watch
from scheduler.protocol import Refused


class Media:
    """One per process."""

    def __init__(self, config: ProxyConfig, parsing: Parsing, room: Room) -> None:
        self._config = config
        self._parsing = parsing
        self._room = room
        self._fetching = Fetching(config.media_hosts)

    def close(self) -> None:
        self._fetching.close()

    async def settled(self, body: Body, watch: Watch) -> Body:
        """`body` itself, of which valid JSON is known, when it names no media by an address; else
        another with what was fetched, the caller's to close. Raises Refused or Interrupted."""
        found = await self._parsing.run(body, partial(_look, body))
        if isinstance(found, Refused):
            raise found
        if not found:
            return body
        with watch:
            fetched = await self._fetching.fetched(found)
            data = await self._parsing.run(body, partial(_inlined, body, fetched))
            return await kept_body(data, self._room, self._config)


def _look(body: Body) -> list[Address] | Refused:
    """A refusal is returned: raised, it would hold on to the bytes of the body."""
    with body.view() as view:
        try:
            return addresses_in(view)
        except TooMany:
            return Refused(
                "invalid_request", f"The body's JSON has more than {MOST_OBJECTS} objects."
            )
        except RecursionError:
            return Refused("invalid_json", "The body's JSON is nested too deeply.")


def _inlined(body: Body, fetched: Mapping[str, Fetched]) -> bytes:
    with body.view() as view:
        return inlined(view, fetched)
