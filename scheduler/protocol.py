"""The control socket's messages and errors: newline-delimited JSON, many requests per connection.

Every request carries an `id` of the caller's choice; its reply repeats it. A lease belongs to the
connection that took it. docs/control-socket.md has one example per operation.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

LINE_LIMIT = 1 << 20
"""Bytes in one line, newline included."""
UNREADABLE_ID = -1
"""The id of the reply to a line that has none that could be read."""


class _Operation(msgspec.Struct, tag_field="op", forbid_unknown_fields=True, frozen=True):
    id: int


class Acquire(_Operation, tag="acquire", frozen=True):
    """Ask for a lease. `preset` is a name or an alias. `age` is the seconds since the request first
    arrived at the gateway (a retry, or one asked again, keeps its place)."""

    preset: str
    tenant: str = ""
    kind: Literal["post", "websocket"] = "post"
    age: float = 0.0
    autoload: bool = True


class Cancel(_Operation, tag="cancel", frozen=True):
    """The waiter `target` (an acquire's or load's id on this connection) leaves."""

    target: int


class Release(_Operation, tag="release", frozen=True):
    """The lease is over and its slot idle.

    `died`: the child's connection broke; the reply then waits a moment (2 s at most) for its exit
    and tells how it ended. Tokens are counts from the answer's own figures.
    """

    lease: int
    died: bool = False
    read: int = 0
    cached: int = 0
    answered: int = 0


class Abandon(_Operation, tag="abandon", frozen=True):
    """The client left while the child works on. Still counted, until Release or until the
    scheduler sees the slot idle."""

    lease: int


class Load(_Operation, tag="load", frozen=True):
    """A person's load. Replies when queued, or with `wait` when loaded (or failed)."""

    preset: str
    wait: bool = False


class Unload(_Operation, tag="unload", frozen=True):
    preset: str
    force: bool = False


class Apply(_Operation, tag="apply", frozen=True):
    """A stale instance of `preset` drains now, not when it is idle."""

    preset: str


class Reload(_Operation, tag="reload", frozen=True):
    """The registry has changed; `revision` is its new number."""

    revision: int = 0


DeviceName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_.:+-]{0,63}$")]
DeviceBytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
"""A pebibyte on one device is nonsense."""


class Measured(_Operation, tag="measured", frozen=True):
    """The measure job found what an instance takes on each device. `fingerprint` is the preset's
    memory fingerprint: figures of options that the preset no longer has are not shown."""

    preset: str
    fingerprint: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    devices: Annotated[dict[DeviceName, DeviceBytes], msgspec.Meta(min_length=1, max_length=64)]


class Snapshot(_Operation, tag="snapshot", frozen=True):
    pass


class Ping(_Operation, tag="ping", frozen=True):
    pass


class Shutdown(_Operation, tag="shutdown", frozen=True):
    """Refuse waiters, start nothing more; leases run on. Sent by `serve` before it stops."""


Operation = (
    Acquire
    | Cancel
    | Release
    | Abandon
    | Load
    | Unload
    | Apply
    | Reload
    | Measured
    | Snapshot
    | Ping
    | Shutdown
)


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A refusal on the wire. `retry_after` in seconds."""

    code: str
    message: str
    retry_after: float | None = None


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Either `ok` or `error`. A line that could not be read is answered with id -1."""

    id: int
    ok: dict[str, Any] | None = None
    error: ErrorBody | None = None


class Granted(msgspec.Struct, frozen=True):
    """What an acquire's `ok` holds. `address` is the path of the child's Unix socket."""

    lease: int
    preset: str
    instance: int
    address: str


class Ended(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a release's `ok["ended"]` holds when the instance is gone: why, and its last words
    if it never became ready (those of one that has served may quote other clients).

    `by_itself` is true for a crash, false when Corral stopped it.
    """

    by_itself: bool
    reason: str
    exit_code: int | None = None
    signal: int | None = None
    words: str = ""


class InstanceState(msgspec.Struct, frozen=True):
    """A running child in a snapshot. Times are seconds ago; `progress` is 0 to 1 while loading."""

    instance: int
    preset: str
    state: str  # loading, loaded, sleeping, draining, stopping
    leases: int
    abandoned: int
    parallel: int
    pid: int | None
    stale: bool
    started_ago: float
    used_ago: float
    progress: float | None = None
    args: list[str] = []
    meta: dict[str, Any] = {}  # what the child reported when it became ready


class QueueEntry(msgspec.Struct, frozen=True):
    """A preset that waits, with its waiters; `oldest` is the seconds its first one has waited."""

    preset: str
    waiters: int
    oldest: float


class Failure(msgspec.Struct, frozen=True):
    """Why a preset's last load failed, until one succeeds. `retry_after` in seconds."""

    preset: str
    reason: str
    exit_code: int | None
    signal: int | None
    words: str
    failed_ago: float
    retry_after: float


class SnapshotState(msgspec.Struct, frozen=True):
    """What a snapshot's `ok` holds: all that is live."""

    pid: int
    revision: int
    models_max: int
    shutting_down: bool
    instances: list[InstanceState]
    queue: list[QueueEntry]
    failures: list[Failure]
    measured: dict[str, dict[str, int]] = {}
    """Bytes on each device, by preset: of those that are measured as they are now."""


class ErrorKind(msgspec.Struct, frozen=True):
    """What every dialect needs to know of a code. `retry` false: waiting does not cure it."""

    status: int
    retry: bool
    type: str  # the envelope's `type`, as llama.cpp names them


_CLIENT = "invalid_request_error"
_UNAVAILABLE = "unavailable_error"
_SERVER = "server_error"

ERRORS: dict[str, ErrorKind] = {
    # Refused before the scheduler is asked
    "invalid_json": ErrorKind(400, False, _CLIENT),
    "model_missing": ErrorKind(400, False, _CLIENT),
    "invalid_request": ErrorKind(400, False, _CLIENT),
    "invalid_api_key": ErrorKind(401, False, "authentication_error"),
    "auth_unavailable": ErrorKind(503, True, _UNAVAILABLE),
    "host_not_allowed": ErrorKind(403, False, "permission_error"),
    "permission_denied": ErrorKind(403, False, "permission_error"),
    "not_found": ErrorKind(404, False, "not_found_error"),
    "method_not_allowed": ErrorKind(405, False, _CLIENT),
    "request_timeout": ErrorKind(408, True, _CLIENT),
    "conflict": ErrorKind(409, False, _CLIENT),
    "body_too_large": ErrorKind(413, False, _CLIENT),
    "validation_failed": ErrorKind(422, False, _CLIENT),
    "headers_too_large": ErrorKind(431, False, _CLIENT),
    "too_many_connections": ErrorKind(503, True, _UNAVAILABLE),
    # Refused by the scheduler
    "model_not_found": ErrorKind(404, False, "not_found_error"),
    "model_removed": ErrorKind(404, False, "not_found_error"),
    "model_not_loaded": ErrorKind(400, False, _CLIENT),
    "preset_invalid": ErrorKind(503, False, _UNAVAILABLE),
    "model_load_failed": ErrorKind(503, False, _UNAVAILABLE),
    "model_backing_off": ErrorKind(503, True, _UNAVAILABLE),
    "model_broken": ErrorKind(503, False, _UNAVAILABLE),
    "out_of_memory": ErrorKind(503, True, _UNAVAILABLE),
    "blocked_by_pinned": ErrorKind(503, False, _UNAVAILABLE),
    "does_not_fit": ErrorKind(503, True, _UNAVAILABLE),
    "queue_full": ErrorKind(503, True, _UNAVAILABLE),
    "queue_timeout": ErrorKind(503, True, _UNAVAILABLE),
    "unloaded": ErrorKind(503, True, _UNAVAILABLE),
    "shutting_down": ErrorKind(503, True, _UNAVAILABLE),
    "unknown_operation": ErrorKind(400, False, _CLIENT),
    "unknown_lease": ErrorKind(404, False, _CLIENT),
    "scheduler_unavailable": ErrorKind(503, True, _UNAVAILABLE),
    # While the answer was under way
    "request_crashes_model": ErrorKind(500, False, _SERVER),
    "model_died": ErrorKind(502, True, _SERVER),
    "model_stopped": ErrorKind(503, True, _UNAVAILABLE),
    "first_byte_timeout": ErrorKind(504, True, _SERVER),
    "answer_timeout": ErrorKind(504, False, _SERVER),
    "internal_error": ErrorKind(500, True, _SERVER),
}


class Refused(Exception):
    """The gateway will not serve this request; `code` is one of ERRORS.

    `retry_after_seconds` is what the client is told to wait, where waiting helps.
    """

    def __init__(
        self, code: str, message: str, *, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_seconds = retry_after_seconds

    @property
    def kind(self) -> ErrorKind:
        return ERRORS[self.code]
