"""Messages about leases: how one is asked for, what is granted, and how it ends."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from scheduler.live_states import PriorityName

from .base import AllowedLists, ConversationText, Count, OperationBase, RequestText
from .limits import MOST_LIMITS, Limit, Rate

LONGEST_AGE = 7 * 86_400.0
"""Seconds: nobody has been waiting for longer than a week."""
Weight = Annotated[float, msgspec.Meta(ge=0.01, le=1000)]


class OwnNames(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Where the caller's own aliases lead for the name that is asked for; each empty, or a preset's
    name or an alias of the registry. `exact` goes before everything, `wildcard` before the
    registry's patterns, `default` before its default."""

    exact: str = ""
    wildcard: str = ""
    default: str = ""


NO_OWN_NAMES = OwnNames()


class Acquire(OperationBase, tag="acquire", frozen=True):
    """Ask for a lease. `preset` is a name or an alias, or empty for the default. `age` is the
    seconds since the request first arrived at the gateway (a retry, or one asked again, keeps its
    place). `get` asks for a look: it takes no slot and ends by itself after seconds. The holder of
    a `websocket` is told later, too, whether its instance drains (Drains). `weight` and `priority`
    are the tenant's. Those of one `sticky` come to the same one of several instances, as long as
    it has a free slot.

    `conversation` is the client's id of the stream that it asks for, among those of `owner`: its
    lease lasts as long as the child writes, whatever becomes of this connection, and a newer
    request with the same id ends it.

    `limits` are those that may concern it, `charge` what it is counted by in them: the same when it
    is tried again, and of the asker's own making. It reserves `prompt` tokens and `cap` for its
    answer; where that is null the preset's own limit of an answer, else the scheduler's.

    `allowed` says which presets there are for the asker: each of these lists must have its name or
    an alias of it, by itself or by a pattern. None: all."""

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
    limits: Annotated[tuple[Limit, ...], msgspec.Meta(max_length=MOST_LIMITS)] = ()
    charge: RequestText = ""
    prompt: Count = 0
    cap: Count | None = None
    allowed: AllowedLists = ()


class Cancel(OperationBase, tag="cancel", frozen=True):
    """The waiter `target` (an acquire's or load's id on this connection) leaves."""

    target: int


class Release(OperationBase, tag="release", frozen=True):
    """The lease is over and its slot idle.

    `died`: the child's connection broke; the reply then waits a moment (2 s at most) for its exit
    and tells how it ended. `read`, `cached` (of those) and `answered` are the tokens that the
    answer states; what it does not state is null. `unread`: the stream of a conversation has ended,
    and its client may not have all of it yet. `unanswered`: not a byte of an answer has come, and
    nothing is charged; its place in the limits is kept for a moment (5 s), for it may be asked for
    again, unless `forgo` says that it is not. `silent`: nobody waits for a reply, and none comes
    but a refusal.
    """

    lease: int
    died: bool = False
    read: Count | None = None
    cached: Count | None = None
    answered: Count | None = None
    unread: bool = False
    unanswered: bool = False
    silent: bool = False

    @property
    def tokens(self) -> int | None:
        """Those that were computed; None when nobody has counted."""
        if self.read is None and self.answered is None:
            return None
        return max(0, (self.read or 0) - (self.cached or 0)) + (self.answered or 0)

    @property
    def context(self) -> int | None:
        """Those that a slot holds of it; None when nobody has counted."""
        return None if self.read is None else self.read + (self.answered or 0)


class Abandon(OperationBase, tag="abandon", frozen=True):
    """The client left while the child works on. Still counted, until Release or until the
    scheduler sees the slot idle."""

    lease: int


class Heard(OperationBase, tag="heard", frozen=True):
    """The remote server began to answer the lease's request; or `failed` says how it did not, in
    words that hold nothing of a client's. Failures in a row let it be left alone for a while."""

    lease: int
    failed: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Keep(OperationBase, tag="keep", frozen=True):
    """The tenant wishes those instances that it has used kept, once idle, for so many seconds."""

    preset: str
    seconds: float
    tenant: str = ""
    own: OwnNames = NO_OWN_NAMES
    allowed: AllowedLists = ()


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
    request has one that can be resumed. `loading`: for so many seconds of its wait its model was
    being loaded. `tells_tokens` is false for a server that counts the tokens of a stream only when
    asked to. `rate` is what is left of the caller's limits, where it has any."""

    lease: int
    preset: str
    instance: int
    address: str
    filters: Filters | None = None
    remote: Remote | None = None
    model: str = ""
    limits: TimeLimits | None = None
    stream: str = ""
    loading: float = 0.0
    tells_tokens: bool = True
    rate: Rate | None = None


class Drains(msgspec.Struct, frozen=True):
    """What further replies to a granted acquire of kind `websocket` hold: whether its instance
    drains now. An idle WebSocket is to be closed then, for nobody knows when it will end."""

    draining: bool
