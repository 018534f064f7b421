"""Replies of the control socket as lines."""

from __future__ import annotations

import logging

import msgspec

from models_registry.engines import EngineKind
from models_registry.launch import LaunchSpec
from models_registry.request_filters import NO_FILTERS
from scheduler.core.values import RequestId
from scheduler.protocol import (
    CountedState,
    DevicesState,
    ErrorBody,
    Explained,
    Filters,
    FitAnswer,
    Granted,
    Reply,
    SnapshotState,
    StreamsState,
    StreamState,
    TimeLimits,
    WaitersPage,
)

from .remote_run import RemoteRun
from .waiting import Run

logger = logging.getLogger(__name__)

NO_OWN_LIMITS = (None, None, None, None)
Told = (
    StreamState
    | StreamsState
    | Explained
    | WaitersPage
    | DevicesState
    | FitAnswer
    | CountedState
    | SnapshotState
)
"""What is told whole, as it is."""

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


def grant_of(
    request: RequestId, run: Run, spec: LaunchSpec, name: str, loading: float = 0.0
) -> Granted:
    """Who answers, where, what it calls the model, and what `spec` says of requests for `name`;
    `loading` as in Granted."""
    remote = run.remote if isinstance(run, RemoteRun) else None
    return Granted(
        request,
        run.spec.preset,
        run.instance,
        "" if isinstance(run, RemoteRun) else str(run.address),
        _filters(spec, name),
        remote,
        run.spec.engine.model,
        _time_limits(spec),
        loading=loading,
        tells_tokens=run.spec.engine.kind == EngineKind.LLAMA_SERVER,
    )


def _filters(spec: LaunchSpec, name: str) -> Filters | None:
    if spec.filters == NO_FILTERS:
        return None
    found = spec.filters.for_name(name)
    if found is None:
        return None
    return Filters(list(found.strip), dict(found.defaults), dict(found.set))


def _time_limits(spec: LaunchSpec) -> TimeLimits | None:
    own = (
        spec.connect_timeout_seconds,
        spec.first_byte_timeout_seconds,
        spec.idle_timeout_seconds,
        spec.answer_timeout_seconds,
    )
    return None if own == NO_OWN_LIMITS else TimeLimits(*own)
