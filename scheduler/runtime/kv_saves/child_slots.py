"""The slots of a llama-server child: what is in them, written into files, read from files.

To look wakes a sleeping child, and is no use of one that is awake; to save and to restore are both
(read in its source). A slot that works is saved when its work has ended: that is not asked for.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
import msgspec

from ..engines import http

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
NOT_THERE = frozenset({404, 501})
"""What is answered by a server that has no such thing, or not for this model."""


@dataclass(frozen=True, slots=True)
class Slot:
    """`task` is the number of the last request that wrote into it, higher for later ones; None
    before the first. `tokens` are those that it holds."""

    id: int
    task: int | None
    tokens: int
    is_free: bool


@dataclass(frozen=True, slots=True)
class Done:
    tokens: int
    size: int


@dataclass(frozen=True, slots=True)
class Failed:
    """`for_good`: it cannot do it at all."""

    words: str
    for_good: bool = False


class Slots(Protocol):
    """Each for as long as it takes: whoever asks has a limit."""

    async def look(self, address: str) -> list[Slot]:
        """Those that may be saved; none where the child does not say."""
        ...

    async def save(self, address: str, slot: int, name: str) -> Done | Failed:
        """Into a file of its own folder."""
        ...

    async def restore(self, address: str, slot: int, name: str) -> Done | Failed:
        """A slot whose file cannot be read is empty afterwards."""
        ...

    async def reading_speed(self, address: str) -> float:
        """Tokens of prompts a second, on the average of its life; 0 where it does not say."""
        ...


class ChildSlots:
    async def look(self, address: str) -> list[Slot]:
        found = await http.get(address, "/slots", LOOK_SECONDS)
        if not isinstance(found, list):
            return []
        slots = (_slot(each) for each in found if isinstance(each, dict))
        return [slot for slot in slots if slot is not None]

    async def save(self, address: str, slot: int, name: str) -> Done | Failed:
        return await _asked(address, slot, "save", name, "n_saved", "n_written")

    async def restore(self, address: str, slot: int, name: str) -> Done | Failed:
        return await _asked(address, slot, "restore", name, "n_restored", "n_read")

    async def reading_speed(self, address: str) -> float:
        try:
            async with (
                http.asking(address, LOOK_SECONDS) as session,
                session.get("/metrics") as answer,
            ):
                return _speed(await answer.text(errors="replace"))
        except (aiohttp.ClientError, OSError, TimeoutError) as failure:
            logger.debug("no figures of %s: %s", address, failure)
            return 0.0


def _slot(told: dict[str, Any]) -> Slot | None:
    """None for one that cannot be restored as it was: what drafts for it is in no file."""
    number, task, tokens = told.get("id"), told.get("id_task"), told.get("n_prompt_tokens")
    if not isinstance(number, int) or told.get("speculative"):
        return None
    return Slot(
        number,
        task if isinstance(task, int) and task >= 0 else None,
        tokens if isinstance(tokens, int) else 0,
        is_free=told.get("is_processing") is False,
    )


async def _asked(
    address: str, slot: int, action: str, name: str, tokens: str, size: str
) -> Done | Failed:
    body = msgspec.json.encode({"filename": name})
    headers = {"Content-Type": "application/json"}
    path = f"/slots/{slot}"
    try:
        async with (
            http.asking(address) as session,
            session.post(path, params={"action": action}, data=body, headers=headers) as answer,
        ):
            said = await answer.read()
    except (aiohttp.ClientError, OSError) as failure:
        return Failed(f"{action} was not answered: {failure}")
    if answer.status != 200:
        words = said[:300].decode(errors="replace")
        return Failed(f"{action} was answered {answer.status}: {words}", answer.status in NOT_THERE)
    try:
        told = msgspec.json.decode(said)
        return Done(int(told[tokens]), int(told[size]))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as failure:
        return Failed(f"{action} was answered with what cannot be read: {failure}")


def _speed(page: str) -> float:
    tokens, seconds = (
        _figure(page, "prompt_tokens_total"),
        _figure(page, "prompt_seconds_total"),
    )
    return tokens / seconds if tokens > 0 and seconds > 0 else 0.0


def _figure(page: str, name: str) -> float:
    found = re.search(rf"^llamacpp:{name} ([0-9.e+]{{1,40}})$", page, re.MULTILINE)
    try:
        return float(found[1]) if found else 0.0
    except ValueError:
        return 0.0
