"""Messages about what is counted."""

from __future__ import annotations

import msgspec

from scheduler.tally import Tallied

from .base import OperationBase


class Tell(OperationBase, tag="tell", frozen=True):
    """What a web process has counted since it last told."""

    tallied: Tallied


class Figures(OperationBase, tag="figures", frozen=True):
    """All that was counted since the scheduler started, by itself and by those who told it."""


class FiguresState(msgspec.Struct, frozen=True):
    """What a `figures`' `ok` holds; `addresses` are those of the models that answer, each with its
    preset and instance."""

    tallied: Tallied
    addresses: list[tuple[str, int, str]] = []
