"""Which instances are saved, and which saves go into the slots of a fresh one. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import pairwise

from models_registry.engines import EngineKind
from models_registry.launch import LaunchSpec
from scheduler.core.sizes import Grant
from scheduler.kv_rule import KvRule
from scheduler.runtime.engines.llama_server import EMBEDS_ONLY

from .child_slots import Slot
from .store import Kind, Save

SLEEP = "--sleep-idle-seconds"


def can_be_saved(spec: LaunchSpec) -> bool:
    """No other engine writes slots into files; of what drafts, none does."""
    return (
        spec.kv_saves
        and spec.engine.kind == EngineKind.LLAMA_SERVER
        and bool(spec.memory_fingerprint)
        and EMBEDS_ONLY.isdisjoint(spec.argv)
        and not any(_drafts(word) for word in spec.argv)
    )


def sleeps_after(spec: LaunchSpec) -> float:
    """Seconds without work after which its child frees its model by itself; 0: it never does."""
    return _sleep_in(spec.argv)


@lru_cache(maxsize=256)
def _sleep_in(argv: tuple[str, ...]) -> float:
    told = [value for name, value in pairwise(argv) if name == SLEEP]
    try:
        return max(0.0, float(told[-1])) if told else 0.0
    except ValueError:
        return 0.0


def _drafts(word: str) -> bool:
    return word.startswith("--spec-") or (word.startswith("--") and "draft" in word)


def kind_of(spec: LaunchSpec, grant: Grant) -> Kind:
    """Of the files (size and time of change), every option, the environment, the engine's version
    and its devices; then of the context that it was granted. What does not change a state, as
    `--temp`, parts them too: that costs a reading, and the other error an answer."""
    made = _digest(spec.fingerprint, spec.memory_fingerprint)
    return Kind(spec.preset, made, _digest(made, grant.context))


def worth_saving(slots: Sequence[Slot], seen: dict[int, int | None], rule: KvRule) -> list[Slot]:
    """The last used first. `seen` has the slots as they were restored or saved before."""
    used = [
        slot
        for slot in slots
        if slot.is_free and slot.task is not None and slot.tokens >= rule.least_tokens
        if seen.get(slot.id) != slot.task
    ]
    return sorted(used, key=lambda slot: -(slot.task or 0))


def to_restore(
    saves: Sequence[Save], waiting: Collection[str], slots: int, rule: KvRule
) -> list[Save]:
    """Those of who waits first, then the last used. With isolation only those of the one tenant
    who waits, into whose slots nobody else can have written."""
    if rule.isolated:
        saves = [save for save in saves if save.alone and set(waiting) == {save.tenant}]
    saves = sorted(saves, key=lambda save: (save.tenant not in waiting, -save.used))
    return saves[:slots]


def _digest(*told: object) -> str:
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]
