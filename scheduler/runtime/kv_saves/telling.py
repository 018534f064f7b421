"""What people are told of saves: in the record, in the log, and counted."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..instance_run import InstanceRun
from ..record import Decided
from .child_slots import Failed
from .counting import Counting
from .store import Dropped, Save

if TYPE_CHECKING:
    from ..owner import Owner

logger = logging.getLogger(__name__)


class Telling:
    def __init__(self, owner: Owner, counting: Counting) -> None:
        self._owner = owner
        self._counting = counting
        self._has_failed = False

    def saved(self, run: InstanceRun, saves: Sequence[Save], seconds: float) -> None:
        self._counting.saved(saves)
        self._tell("kv_save", run, saves, seconds)

    def restored(self, run: InstanceRun, saves: Sequence[Save], seconds: float) -> None:
        self._counting.restored(saves)
        self._tell("kv_restore", run, saves, seconds)

    def dropped(self, dropped: Iterable[Dropped]) -> None:
        for save, why in dropped:
            self._counting.dropped(save, why)
            if why != "replaced":
                figures = {"tokens": save.tokens, "bytes": save.size}
                self._owner.record(Decided("kv_drop", save.kind.preset, None, why, figures))

    def not_saved(self, run: InstanceRun, failed: Failed) -> None:
        level = logging.INFO if failed.for_good else logging.WARNING
        logger.log(level, "%s: a slot is not saved: %s", run.name, failed.words)

    def failed(self, failure: OSError) -> None:
        """Once, until it works again."""
        if not self._has_failed:
            logger.warning("a conversation could not be saved: %s", failure)
        self._has_failed = True

    def works(self) -> None:
        self._has_failed = False

    def _tell(self, kind: str, run: InstanceRun, saves: Sequence[Save], seconds: float) -> None:
        figures = {
            "slots": len(saves),
            "tokens": sum(save.tokens for save in saves),
            "bytes": sum(save.size for save in saves),
            "seconds": round(seconds, 3),
        }
        self._owner.record(Decided(kind, run.spec.preset, run.instance, "conversations", figures))
        logger.info("%s: %s %s", run.name, kind.replace("_", " "), figures)
