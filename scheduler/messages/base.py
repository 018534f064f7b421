"""What all messages of the control socket are made of: their bounds, and who asks."""

from __future__ import annotations

from typing import Annotated

import msgspec

LINE_LIMIT = 1 << 20
"""Bytes in one line, newline included."""
UNREADABLE_ID = -1
"""The id of the reply to a line that has none that could be read."""
REQUEST_TEXT = r"^[!-~]{0,128}\Z"
RequestText = Annotated[str, msgspec.Meta(pattern=REQUEST_TEXT)]
"""What a client knows its request by: printable ASCII, at most 128 characters."""
CONVERSATION_TEXT = r"^[ -~]{0,256}\Z"
ConversationText = Annotated[str, msgspec.Meta(pattern=CONVERSATION_TEXT)]
"""A client's id of a conversation: printable ASCII, at most 256 characters."""
MOST_ALLOWED = 64
Names = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_ALLOWED)]
AllowedLists = Annotated[tuple[Names, ...], msgspec.Meta(max_length=2)]
"""Names and patterns of presets, in lists of which each must have one: a key's, and its team's."""
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class OperationBase(
    msgspec.Struct, tag_field="op", forbid_unknown_fields=True, frozen=True, omit_defaults=True
):
    id: int
