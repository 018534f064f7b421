"""One lease's way to a remote server and back. It ends with its lease released, in any case."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.remote.answer import RemoteAnswer, Unreachable
from proxy.remote.request import RemoteRequest, remote_request
from proxy.remote.verdict import refuse_what_is_no_answer, works
from proxy.upstream import UpstreamFailed
from proxy.usage.counting import NOTHING, Counted
from proxy.watch import Cause, Interrupted, Watch
from scheduler.protocol import Refused, Remote

if TYPE_CHECKING:
    from proxy.forwarding import Carriers, Order
    from proxy.outgoing import Outgoing
    from proxy.relay import Relay
    from scheduler.client import Lease

logger = logging.getLogger(__name__)

ASK_AGAIN_SECONDS = 1.0
LOOKS = frozenset({"/props"})
"""Of what can be seen of a model. The rest shows a server's whole work, which is not ours alone."""

_TIMED_OUT = {
    Cause.FIRST_BYTE: "it did not begin to answer in time",
    Cause.BETWEEN_TOKENS: "it stopped in the middle of an answer",
}


@dataclass(slots=True)
class Passage:
    order: Order
    carriers: Carriers
    relay: Relay
    watch: Watch
    outgoing: Outgoing
    lease: Lease
    remote: Remote

    async def run(self, *, last: bool) -> bool:
        """False when there was no connection, and it may be tried again. Raises Refused or
        Interrupted."""
        done, again, counted = False, False, NOTHING
        try:
            self._refuse_looks()
            answer = self.carriers.remotes.answer(self._request())
            try:
                done = await self._to_the_end(answer, last=last)
                if done:
                    counted = self.relay.count(answer)
                else:
                    again = True
                    self.order.meter.failed_try("upstream_unavailable")
            except BaseException as left:
                counted = self._cut(answer, left)
                raise
            finally:
                answer.close()
        finally:
            await self.lease.release(
                read=counted.read,
                cached=counted.cached,
                answered=counted.answered,
                unanswered=again,
            )
            self.outgoing.close()
        if done:
            await self.relay.finish()
        return done

    def _cut(self, answer: RemoteAnswer, left: BaseException) -> Counted:
        """Of what never began to answer, or did not take the request, nothing was used here."""
        if not answer.begun or answer.status >= 400:
            self.order.meter.failed(left)
            return NOTHING
        counted = self.relay.count(answer, whole=False)
        self.order.meter.cut(left, counted)
        return counted

    async def _to_the_end(self, answer: RemoteAnswer, *, last: bool) -> bool:
        try:
            await self._first_byte(answer)
            self._tell(answer)
            await self.relay.copy(answer)
        except Unreachable as failure:
            self._tell_failed(failure)
            if not last:
                self.watch.no_limit()
                return False
            raise self._refused(
                "upstream_unavailable", f"cannot be reached: {failure}"
            ) from failure
        except UpstreamFailed as failure:
            self._tell_failed(failure)
            raise self._refused("upstream_failed", f"failed: {failure}") from failure
        except Interrupted as interrupted:
            if (words := _TIMED_OUT.get(interrupted.cause)) is not None:
                self.lease.heard(words)
            raise
        return True

    async def _first_byte(self, answer: RemoteAnswer) -> None:
        config = self.relay.config
        with self.watch as watch:
            watch.limit_answer(config.answer_timeout_seconds)
            watch.limit(config.first_byte_timeout_seconds, Cause.FIRST_BYTE)
            body = await self.outgoing.body(self.lease)
            sending = answer.ask(body.to_send(), body.size, config.connect_timeout_seconds)
            if sending is not None:
                body.sent_by(sending)
            await answer.begin()

    def _tell(self, answer: RemoteAnswer) -> None:
        """Raises Refused."""
        working = works(answer.status, answer.headers)
        if working is not None:
            self.lease.heard("" if working else f"it answered with status {answer.status}")
        refuse_what_is_no_answer(answer.status, self.order.model)

    def _tell_failed(self, failure: UpstreamFailed) -> None:
        self.lease.heard(str(failure))
        cause = failure.__cause__
        logger.warning("the upstream of %s: %s (%s)", self.lease.preset, failure, cause)

    def _refused(self, code: str, words: str) -> Refused:
        return Refused(
            code,
            f"The remote server of '{self.order.model}' {words}.",
            retry_after_seconds=ASK_AGAIN_SECONDS,
        )

    def _refuse_looks(self) -> None:
        asked = self.order.asked
        if self.order.kind == "get" and asked.path not in LOOKS:
            raise Refused(
                "not_supported",
                f"'{self.order.model}' runs on a remote server, of which {asked.path} shows more "
                "than this model.",
            )

    def _request(self) -> RemoteRequest:
        return remote_request(
            self.order.asked,
            base=self.remote.url,
            model=self.lease.model,
            key=self.carriers.remotes.key(self.remote.key),
            request_id=self.order.id,
            via=self.carriers.remotes.via,
        )
