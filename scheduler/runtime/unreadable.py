"""Lines on the control socket that are no operation: whom to answer, and what."""

from __future__ import annotations

import msgspec

from scheduler.protocol import UNREADABLE_ID, Operation, Refused


class _AnyLine(msgspec.Struct):
    id: int = UNREADABLE_ID
    op: str = ""


def id_of(line: bytes) -> int:
    """The id of a line that is no operation, as far as it has one."""
    try:
        return msgspec.json.decode(line, type=_AnyLine).id
    except (msgspec.DecodeError, RecursionError):
        return UNREADABLE_ID


def unreadable(line: bytes, problem: Exception) -> Refused:
    try:
        asked = msgspec.json.decode(line, type=_AnyLine).op
    except (msgspec.DecodeError, RecursionError):
        return Refused("invalid_request", f"not a line of the protocol: {problem}")
    known = {type.__struct_config__.tag for type in Operation.__args__}
    if asked and asked not in known:
        return Refused("unknown_operation", f"there is no operation '{asked[:100]}'")
    return Refused("invalid_request", str(problem))
