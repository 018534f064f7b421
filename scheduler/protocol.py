"""The control socket's messages and errors: newline-delimited JSON, many requests per connection.

Every request carries an `id` of the caller's choice; its reply repeats it. A lease belongs to the
connection that took it. docs/control-socket.md has one example per operation.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from .errors import ERRORS as ERRORS
from .errors import ErrorKind as ErrorKind
from .errors import Refused as Refused
from .errors import retry_after as retry_after
from .live_states import Ended as Ended
from .live_states import Explained as Explained
from .live_states import Failure as Failure
from .live_states import Happened as Happened
from .live_states import HoldupName as HoldupName
from .live_states import InstanceState as InstanceState
from .live_states import PriorityName as PriorityName
from .live_states import QueueEntry as QueueEntry
from .live_states import RemoteState as RemoteState
from .live_states import SnapshotState as SnapshotState
from .live_states import Victim as Victim
from .live_states import Waiter as Waiter
from .live_states import WaitersPage as WaitersPage
from .memory_states import DeviceInstance as DeviceInstance
from .memory_states import DevicesState as DevicesState
from .memory_states import DeviceState as DeviceState
from .memory_states import FitAnswer as FitAnswer
from .memory_states import Fitting as Fitting
from .memory_states import PlacementKind as PlacementKind
from .memory_states import PlacementWish as PlacementWish

LINE_LIMIT = 1 << 20
"""Bytes in one line, newline included."""
LAST_SHOWN = 10_000
"""How far into a preset's waiters people may look: each look costs the scheduler a moment."""
LONGEST_AGE = 7 * 86_400.0
"""Seconds: nobody has been waiting for longer than a week."""
UNREADABLE_ID = -1
"""The id of the reply to a line that has none that could be read."""


class _Operation(msgspec.Struct, tag_field="op", forbid_unknown_fields=True, frozen=True):
    id: int


Weight = Annotated[float, msgspec.Meta(ge=0.01, le=1000)]
REQUEST_TEXT = r"^[!-~]{0,128}\Z"
RequestText = Annotated[str, msgspec.Meta(pattern=REQUEST_TEXT)]
"""What a client knows its request by: printable ASCII, at most 128 characters."""
CONVERSATION_TEXT = r"^[ -~]{0,256}\Z"
ConversationText = Annotated[str, msgspec.Meta(pattern=CONVERSATION_TEXT)]
"""A client's id of a conversation: printable ASCII, at most 256 characters."""
MOST_LOOKED_UP = 1000
"""Conversations in one `streams`."""
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class OwnNames(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Where the caller's own aliases lead for the name that is asked for; each empty, or a preset's
    name or an alias of the registry. `exact` goes before everything, `wildcard` before the
    registry's patterns, `default` before its default."""

    exact: str = ""
    wildcard: str = ""
    default: str = ""


NO_OWN_NAMES = OwnNames()


class Acquire(_Operation, tag="acquire", frozen=True):
    """Ask for a lease. `preset` is a name or an alias, or empty for the default. `age` is the
    seconds since the request first arrived at the gateway (a retry, or one asked again, keeps its
    place). `get` asks for a look: it takes no slot and ends by itself after seconds. The holder of
    a `websocket` is told later, too, whether its instance drains (Drains). `weight` and `priority`
    are the tenant's. Those of one `sticky` come to the same one of several instances, as long as
    it has a free slot.

    `conversation` is the client's id of the stream that it asks for, among those of `owner`: its
    lease lasts as long as the child writes, whatever becomes of this connection, and a newer
    request with the same id ends it."""

    preset: str
    tenant: str = ""
    kind: Literal["post", "get", "websocket"] = "post"
    age: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_AGE)] = 0.0
    autoload: bool = True
    weight: Weight = 1.0
    priority: PriorityName = "normal"
    request: RequestText = ""
    sticky: RequestText = ""
    own: OwnNames = NO_OWN_NAMES
    conversation: ConversationText = ""
    owner: RequestText = ""


class Cancel(_Operation, tag="cancel", frozen=True):
    """The waiter `target` (an acquire's or load's id on this connection) leaves."""

    target: int


class Release(_Operation, tag="release", frozen=True):
    """The lease is over and its slot idle.

    `died`: the child's connection broke; the reply then waits a moment (2 s at most) for its exit
    and tells how it ended. `read`, `cached` (of those) and `answered` are the tokens that the
    answer states; what it does not state is null. `unread`: the stream of a conversation has ended,
    and its client may not have all of it yet.
    """

    lease: int
    died: bool = False
    read: Count | None = None
    cached: Count | None = None
    answered: Count | None = None
    unread: bool = False

    @property
    def tokens(self) -> int | None:
        """Those that were computed; None when nobody has counted."""
        if self.read is None and self.answered is None:
            return None
        return max(0, (self.read or 0) - (self.cached or 0)) + (self.answered or 0)


class Abandon(_Operation, tag="abandon", frozen=True):
    """The client left while the child works on. Still counted, until Release or until the
    scheduler sees the slot idle."""

    lease: int


class Heard(_Operation, tag="heard", frozen=True):
    """The remote server began to answer the lease's request; or `failed` says how it did not, in
    words that hold nothing of a client's. Failures in a row let it be left alone for a while."""

    lease: int
    failed: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Detach(_Operation, tag="detach", frozen=True):
    """The client of the waiter `target`, a conversation's, has lost its connection: it waits for a
    minute more at most, and no busy model drains for it."""

    target: int


class Stop(_Operation, tag="stop", frozen=True):
    """The conversation ends, whether it waits, is generated, or can be read. Of one that is not
    there, or another owner's, nothing ends."""

    conversation: ConversationText
    owner: RequestText = ""


class Stream(_Operation, tag="stream", frozen=True):
    """Where the stream of a conversation is (StreamState)."""

    conversation: ConversationText
    owner: RequestText = ""


class Streams(_Operation, tag="streams", frozen=True):
    """The same of all that have one of these ids, or one of them before a `::`."""

    conversations: Annotated[list[ConversationText], msgspec.Meta(max_length=MOST_LOOKED_UP)]
    owner: RequestText = ""


class Seen(_Operation, tag="seen", frozen=True):
    """The client of a conversation has had all of its `stream`, by whatever connection: it need not
    be kept for it."""

    conversation: ConversationText
    stream: RequestText
    owner: RequestText = ""


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


class Keep(_Operation, tag="keep", frozen=True):
    """The tenant wishes those instances that it has used kept, once idle, for so many seconds."""

    preset: str
    seconds: float
    tenant: str = ""
    own: OwnNames = NO_OWN_NAMES


class Reload(_Operation, tag="reload", frozen=True):
    """The registry has changed; `revision` is its new number."""

    revision: int = 0


DEVICE_NAME = r"^[A-Za-z][A-Za-z0-9_.:+-]{0,63}\Z"
DeviceName = Annotated[str, msgspec.Meta(pattern=DEVICE_NAME)]
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


class Devices(_Operation, tag="devices", frozen=True):
    """What each device has, and who holds how much of it."""


class Fit(_Operation, tag="fit", frozen=True):
    """Where `preset` would go now, and on an empty machine; nothing is changed. With `shape` (what
    it takes, as scheduler/measuring/shapes.py writes it) the answer is for that, with `placement`
    and `estimated` as given; without it for the preset as it is saved, with what is known of it."""

    preset: str
    shape: dict[str, Any] | None = None
    placement: PlacementWish = "best"
    estimated: bool = False


class Waiters(_Operation, tag="waiters", frozen=True):
    """One page of those who wait for `preset`, from among the first LAST_SHOWN of them."""

    preset: str
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50
    offset: Annotated[int, msgspec.Meta(ge=0, le=LAST_SHOWN)] = 0


class Explain(_Operation, tag="explain", frozen=True):
    """Where a request stands, and why: by its `request` text, or by `target`, the id of an acquire
    or load on this connection. Of several with one text it is the latest."""

    request: RequestText = ""
    target: int | None = None


class Subscribe(_Operation, tag="subscribe", frozen=True):
    """Every change of a preset's state from now on, each as a reply with this id (Happened); the
    first one holds nothing but the number of the last change before. A `cancel` of it ends it."""


class Ping(_Operation, tag="ping", frozen=True):
    pass


class Shutdown(_Operation, tag="shutdown", frozen=True):
    """Refuse waiters, start nothing more; leases run on. Sent by `serve` before it stops."""


Operation = (
    Acquire
    | Cancel
    | Release
    | Abandon
    | Heard
    | Detach
    | Stop
    | Stream
    | Streams
    | Seen
    | Load
    | Unload
    | Apply
    | Keep
    | Reload
    | Measured
    | Snapshot
    | Devices
    | Fit
    | Waiters
    | Explain
    | Subscribe
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


class Filters(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be done to the body of the request before the child gets it, in this order: leave
    out the parameters to `strip`, fill in `defaults` where there is none, `set` values."""

    strip: list[str] = []
    defaults: dict[str, Any] = {}
    set: dict[str, Any] = {}


class TimeLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The preset's own, in seconds: to connect, to the first byte of the answer, between two pieces
    of it, for all of it. What is null is the gateway's."""

    connect: float | None = None
    first_byte: float | None = None
    idle: float | None = None
    answer: float | None = None


class Remote(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a preset runs that has no child: its URL, and the reference of the kept secret that is
    sent as the key (models_registry/kept_secrets.py), never the secret."""

    url: str
    key: str = ""


class Granted(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an acquire's `ok` holds. `address` is the path of the child's Unix socket; it is empty
    where `remote` says where to go instead. Without `filters` the request goes as it came, but for
    the `model` that it names: whoever answers knows it by this name, unless that is empty. Without
    `limits` it has the gateway's. `stream` is the conversation's id for the child, where the
    request has one that can be resumed."""

    lease: int
    preset: str
    instance: int
    address: str
    filters: Filters | None = None
    remote: Remote | None = None
    model: str = ""
    limits: TimeLimits | None = None
    stream: str = ""


class Drains(msgspec.Struct, frozen=True):
    """What further replies to a granted acquire of kind `websocket` hold: whether its instance
    drains now. An idle WebSocket is to be closed then, for nobody knows when it will end."""

    draining: bool


StreamStateName = Literal["waiting", "generating", "ended", "kept"]


class StreamState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a conversation's stream is: nowhere yet (`waiting`); in the child at `address`, which
    knows it as `stream`; or in the file `path`, where its instance had to go, from its byte `begin`
    on. `began` and `ended` are seconds since 1970."""

    conversation: str
    state: StreamStateName
    stream: str = ""
    address: str = ""
    path: str = ""
    begin: int = 0
    size: int = 0
    began: int = 0
    ended: int = 0


class StreamsState(msgspec.Struct, frozen=True):
    """What a `streams`' `ok` holds."""

    streams: list[StreamState]
