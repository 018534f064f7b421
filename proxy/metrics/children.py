"""What the models' own servers tell of themselves, each with the label of its model."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from proxy.upstream import Answer, UpstreamFailed

if TYPE_CHECKING:
    from prometheus_client import Metric

logger = logging.getLogger(__name__)

ASK_SECONDS = 1.0
MOST_BYTES = 1 << 20
ASKED_AT_ONCE = 16
_HEAD = (
    b"GET /metrics HTTP/1.1\r\nhost: localhost\r\naccept: text/plain\r\nconnection: close\r\n\r\n"
)

Told = tuple[str, int, str]
"""A model, its instance, and what that says."""


async def ask(addresses: Sequence[tuple[str, int, str]]) -> list[Told]:
    """By model, instance and address. One that does not answer soon, or says no, is left out."""
    turn = asyncio.Semaphore(ASKED_AT_ONCE)

    async def told(model: str, instance: int, address: str) -> Told | None:
        async with turn:
            text = await _asked(address)
        return None if text is None else (model, instance, text)

    answers = await asyncio.gather(*(told(*each) for each in addresses))
    return [answer for answer in answers if answer is not None]


async def _asked(address: str) -> str | None:
    answer = Answer(asyncio.get_running_loop())
    try:
        async with asyncio.timeout(ASK_SECONDS):
            await answer.ask(address, _HEAD, b"", ASK_SECONDS)
            await answer.begin()
            text = answer.first
            while len(text) <= MOST_BYTES and (more := await answer.more()):
                text += more
    except (UpstreamFailed, TimeoutError) as failure:
        logger.debug("no metrics of %s: %s", address, failure)
        return None
    finally:
        answer.close()
    if answer.status != 200 or len(text) > MOST_BYTES:
        return None
    return text.decode("utf-8", errors="replace")


def families_of(told: Iterable[Told], ours: frozenset[str]) -> list[Metric]:
    """One family for all models that have it. What cannot be read is left out, and so is what has
    one of `ours` for a name: a model cannot speak for the gateway."""
    from prometheus_client import Metric

    found: dict[str, Metric] = {}
    for model, instance, text in told:
        labels = {"model": model, "instance": str(instance)}
        for family in _read(text):
            if family.name in ours or family.type not in ("counter", "gauge"):
                continue
            kept = found.setdefault(
                family.name, Metric(family.name, family.documentation, family.type)
            )
            if kept.type == family.type:
                for sample in family.samples:
                    kept.add_sample(sample.name, {**sample.labels, **labels}, sample.value)
    return list(found.values())


def _read(text: str) -> list[Metric]:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        return list(text_string_to_metric_families(text))
    except (ValueError, KeyError, IndexError) as failure:
        logger.debug("metrics that cannot be read: %s", failure)
        return []
