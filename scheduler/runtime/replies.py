"""Replies of the control socket as lines."""

from __future__ import annotations

import logging

import msgspec

from scheduler.protocol import ErrorBody, Reply

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
