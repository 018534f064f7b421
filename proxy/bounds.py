"""What one request may ask of a model that others use at the same time.

A llama-server answers all its clients from one process, and in part from one thread. A few of its
parameters let a small request take gigabytes there, hold everybody else up for minutes, or end the
process (measured with llama-cpp-python 0.3.36): `repeat_last_n` of two thousand million takes 16
GB, two thousand `dry_sequence_breakers` some minutes, 50,000 brackets in a `grammar` overflow its
stack, and an unknown kind of `grammar_triggers` aborts it. Here they have bounds that no request
needs to exceed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from mmap import mmap
from operator import attrgetter

import msgspec

from scheduler.protocol import Refused

_ABSENT = msgspec.Raw()

NUMBERS = {
    "repeat_last_n": 1 << 18,
    "dry_penalty_last_n": 1 << 18,
    "n_probs": 100,
    "logprobs": 100,
    "top_logprobs": 100,
}
"""The most: tokens that are kept, some 50 bytes each; and probabilities of each token."""

LISTS = {
    "stop": 256,
    "stop_sequences": 256,
    "dry_sequence_breakers": 32,
    "samplers": 64,
    "reasoning_budget_end_tags": 64,
    "logit_bias": 10_000,
}
"""The most entries."""

GRAMMARS = ("grammar", "json_schema", "response_format", "text", "generation_prompt")
LONGEST_GRAMMAR = 64 << 10
"""Bytes, as they stand in the body."""
MOST_BRACKETS = 4096
MOST_PARTS = 2000
"""Commas and bars: two thousand alternatives take seconds for each token, of everybody's."""
MOST_CHOICES = 500
"""Of one value: the engine tries each of them at each token, some 2 ms each (measured with a
vocabulary of 49,152)."""
CHOICES = ("enum", "anyOf", "oneOf")

PARTS = {
    "messages": 2048,
    "prompt": 256,
    "input": 2048,
    "content": 2048,
    "documents": 2048,
    "texts": 2048,
    "tools": 1024,
}
"""The most entries, of lists that do not hold numbers alone: of a conversation, whose template
takes the square of their number (10,000 messages of a word each: a minute and a half, also when the
client has left); of prompts and inputs, which stand in the engine's own queue before all that
others ask."""

INTERNAL = (
    "chat_format",
    "chat_parser",
    "grammar_lazy",
    "grammar_triggers",
    "grammar_type",
    "preserved_tokens",
)
"""llama-server says these to itself, and takes them from clients too."""

_LONGEST_NUMBER = 64
_LONGEST_LIST = 1 << 20


class Bounded(msgspec.Struct):
    """Those members of a body, as they stand in it."""

    messages: msgspec.Raw = _ABSENT
    prompt: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT
    content: msgspec.Raw = _ABSENT
    documents: msgspec.Raw = _ABSENT
    texts: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT

    repeat_last_n: msgspec.Raw = _ABSENT
    dry_penalty_last_n: msgspec.Raw = _ABSENT
    n_probs: msgspec.Raw = _ABSENT
    logprobs: msgspec.Raw = _ABSENT
    top_logprobs: msgspec.Raw = _ABSENT
    stop: msgspec.Raw = _ABSENT
    stop_sequences: msgspec.Raw = _ABSENT
    dry_sequence_breakers: msgspec.Raw = _ABSENT
    samplers: msgspec.Raw = _ABSENT
    reasoning_budget_end_tags: msgspec.Raw = _ABSENT
    logit_bias: msgspec.Raw = _ABSENT
    grammar: msgspec.Raw = _ABSENT
    json_schema: msgspec.Raw = _ABSENT
    response_format: msgspec.Raw = _ABSENT
    text: msgspec.Raw = _ABSENT
    generation_prompt: msgspec.Raw = _ABSENT
    chat_format: msgspec.Raw = _ABSENT
    chat_parser: msgspec.Raw = _ABSENT
    grammar_lazy: msgspec.Raw = _ABSENT
    grammar_triggers: msgspec.Raw = _ABSENT
    grammar_type: msgspec.Raw = _ABSENT
    preserved_tokens: msgspec.Raw = _ABSENT


_NAMES = Bounded.__struct_fields__
BOUNDED = frozenset(name.encode() for name in _NAMES if name not in PARTS)
"""Of a form, whose fields are texts."""
MOST_LOOKED_AT = LONGEST_GRAMMAR + 1
"""Bytes of a form's field."""
_values = attrgetter(*_NAMES)
_DECODER = msgspec.json.Decoder(Bounded)
_NUMBERS = re.compile(rb"\[[-+0-9.eE,\s]*\]")
_ENTRIES = msgspec.json.Decoder(list[msgspec.Raw] | dict[str, msgspec.Raw])


def check_bounds(body: bytes | mmap) -> None:
    """For a valid JSON object. Raises Refused for what exceeds them."""
    if fault := excess(_DECODER.decode(body)):
        raise Refused("invalid_request", fault)


def excess(asked: Bounded) -> str:
    """What is too much, in words; empty where nothing is. What is of a wrong type is the engine's
    to judge. It holds on to nothing of the body."""
    for name, raw in zip(_NAMES, _values(asked), strict=True):
        if raw is _ABSENT:
            continue
        if name in PARTS:
            if fault := _of_parts(name, memoryview(raw), PARTS[name]):
                return fault
        else:
            value = bytes(memoryview(raw)[: _LONGEST_LIST + 1])
            if value != b"null" and (fault := _fault(name, value)):
                return fault
    return ""


def excess_in_form(fields: Mapping[str, bytes]) -> str:
    """The same for a form's fields, which an engine takes over as texts; of each as much as is
    looked at."""
    for name, value in fields.items():
        if fault := _fault(name, value):
            return fault
    return ""


def _fault(name: str, value: bytes) -> str:
    if name in INTERNAL:
        return f"`{name}` is not taken from clients: leave it out."
    if name in NUMBERS:
        return _of_number(name, value, NUMBERS[name])
    if name in LISTS:
        return _of_list(name, value, LISTS[name])
    if name == "text" and not value.startswith(b"{"):  # Responses' format is in an object
        return ""
    if len(value) > LONGEST_GRAMMAR:
        return f"`{name}` is longer than {LONGEST_GRAMMAR} bytes, which is the most here."
    read = _read(value)
    if b"\\u" in value and read is not None:
        value = msgspec.json.encode(read)  # as the engine reads it: an escape hides nothing
    if value.count(b"(") + value.count(b"[") > MOST_BRACKETS:
        return f"`{name}` has more than {MOST_BRACKETS} brackets, which are the most here."
    if value.count(b",") + value.count(b"|") > MOST_PARTS:
        return f"`{name}` has more than {MOST_PARTS} alternatives, which are the most here."
    if _longest_choice(read) > MOST_CHOICES:
        return f"`{name}` has a list of more than {MOST_CHOICES} alternatives, the most here."
    return ""


def _read(value: bytes) -> object:
    """None for a form's text, which is no JSON."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None


def _longest_choice(schema: object) -> int:
    """Entries of the longest list of which one is to be chosen, wherever it stands."""
    longest, rest = 0, [schema]
    while rest:
        match rest.pop():
            case dict() as members:
                lists = [members[name] for name in CHOICES if isinstance(members.get(name), list)]
                longest = max([longest, *map(len, lists)])
                rest.extend(members.values())
            case list() as entries:
                rest.extend(entries)
    return longest


def _of_parts(name: str, value: memoryview, most: int) -> str:
    """A text, or few, cost nothing here."""
    if value[:1].tobytes() != b"[":
        return ""
    if len(value) < 3 * most:  # the shortest entry that is no number: "" and its comma
        return ""
    if len(value) <= _LONGEST_LIST and value.tobytes().count(b",") < most:
        return ""
    if _NUMBERS.fullmatch(value):  # tokens
        return ""
    try:
        _reader(most).decode(value)
    except msgspec.ValidationError:
        return f"`{name}` has more than {most} entries, the most here."
    return ""


@lru_cache
def _reader(most: int) -> msgspec.json.Decoder[msgspec.Struct]:
    """Of a list of so many. It ends at the first that is too much, whatever comes after."""
    entries = [(f"_{number}", msgspec.Raw, _ABSENT) for number in range(most)]
    kind = msgspec.defstruct("Entries", entries, array_like=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(kind)


def _of_number(name: str, value: bytes, most: int) -> str:
    try:
        number = float(value) if len(value) <= _LONGEST_NUMBER else float("inf")
    except ValueError:  # true, a text
        return ""
    return "" if number <= most else f"`{name}` is more than {most}, which is the most here."


def _of_list(name: str, value: bytes, most: int) -> str:
    if value[:1] not in b"[{" or len(value) < 2 * most:  # an entry and its comma
        return ""
    if len(value) > _LONGEST_LIST:
        return f"`{name}` is longer than {_LONGEST_LIST} bytes, which is the most here."
    try:
        entries = _ENTRIES.decode(value)
    except msgspec.DecodeError:  # a form's text, which is no list
        return ""
    if len(entries) <= most:
        return ""
    return f"`{name}` has more than {most} entries, which are the most here."
