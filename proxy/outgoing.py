"""The body of a request as whoever answers it is to get it: filtered, and with the name by which
that one knows the model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from proxy.body import Body
from proxy.dialects.otherwise import AS_IT_IS, PATHS, Otherwise, otherwise
from proxy.filtering import NO_EFFECTS, Effects, Filtering
from proxy.media.settling import Media
from proxy.parsing import Parsing
from proxy.relay import Relay
from proxy.watch import Watch
from scheduler.client import Lease
from scheduler.protocol import Filters


@dataclass(slots=True)
class Outgoing:
    """Of one request. `form` is the Content-Type of a multipart form; what is neither that nor JSON
    goes as it came. `may_ask_usage`: it is of a kind whose stream tells its usage who asks. `end`
    it."""

    came: Body
    filtering: Filtering
    relay: Relay
    form: bytes | None
    is_json: bool
    may_ask_usage: bool
    path: str
    _otherwise: Otherwise = AS_IT_IS
    _settled: Body | None = None
    _changed: Body | None = None

    async def settle(self, media: Media, parsing: Parsing, watch: Watch) -> None:
        """Before anything is asked for: no address of media stays in it. Raises Refused or
        Interrupted."""
        if not self.is_json:
            return
        settled = await media.settled(self.came, watch)
        if settled is not self.came:
            self._settled = self.came = settled
        if self.path in PATHS:
            self._otherwise = await parsing.run(self.came, partial(_look, self.path, self.came))

    async def body(self, lease: Lease) -> Body:
        """For this lease: each may be of another state of the registry. The one before is closed.
        Raises Refused."""
        self.close()
        self.relay.filtered = b""
        self.relay.hides_usage = False
        body, effects = await self._for(lease)
        if effects:
            self.relay.filtered = effects.header()
            self.relay.hides_usage = effects.asks_usage
        if body is not self.came:
            self._changed = body
        return body

    def close(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.close()

    def end(self) -> None:
        self.close()
        if self._settled is not None:
            self._settled.close()

    async def _for(self, lease: Lease) -> tuple[Body, Effects]:
        if self.form is not None and lease.model:
            renamed = await self.filtering.rename_in_form(self.came, self.form, lease.model)
            return renamed, NO_EFFECTS
        asks = self.may_ask_usage and not lease.tells_tokens
        other = self._otherwise if lease.remote is None else AS_IT_IS
        if other.refused is not None:
            raise other.refused
        as_it_came = lease.filters is None and not lease.model and not asks and not other
        if not self.is_json or as_it_came:
            return self.came, NO_EFFECTS
        filters = lease.filters or Filters()
        strip, defaults, changed = filters.strip, filters.defaults, filters.set
        if lease.model:
            changed = {**changed, "model": lease.model}
        if other:
            strip, defaults = [*strip, *other.strip], {**defaults, **other.add}
        wanted = Filters(strip, defaults, changed)
        body, effects = await self.filtering.apply(self.came, wanted, ask_usage=asks)
        own = ("model",) if lease.model else ()
        return body, effects.without(*own, *other.strip, *other.add)


def _look(path: str, body: Body) -> Otherwise:
    with body.view() as view:
        return otherwise(path, view)
