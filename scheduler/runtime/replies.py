"""Replies of the control socket as lines."""

from __future__ import annotations

import logging

import msgspec

from scheduler.core.values import RequestId
from scheduler.protocol import ErrorBody, Filters, Granted, Reply

from .remote_run import RemoteRun
from .waiting import Run

logger = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode


def written(reply: Reply) -> bytes:
    """One that cannot be written (it holds half a surrogate pair, say) is an error instead: it is
    one request's, and the scheduler is everybody's."""
    try:
        return _encode(reply)
    except (UnicodeEncodeError, msgspec.EncodeError, TypeError) as problem:
        logger.exception("a reply cannot be written")
        words = f"the reply cannot be written ({type(problem).__name__})"
        return _encode(Reply(reply.id, error=ErrorBody("internal_error", words)))


def granted(request: RequestId, run: Run, filters: Filters | None) -> Granted:
    """Who answers, where, and what it calls the model."""
    remote = run.remote if isinstance(run, RemoteRun) else None
    address = "" if isinstance(run, RemoteRun) else str(run.address)
    spec = run.spec
    return Granted(request, spec.preset, run.instance, address, filters, remote, spec.engine.model)
