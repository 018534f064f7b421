"""Conversations that survive their instance: saved before it is asked to exit, restored before
clients come to the next one.

What is saved goes through three hands: the child writes a file into a folder of its own, as long
as the exit may wait for it; a thread checks it and takes it into the store, whatever becomes of
the child meanwhile; the next child gets a link to it. Everything without `async` is called in the
owner's turn, or from its loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from models_registry.launch import LaunchSpec
from scheduler.core.sizes import Grant
from scheduler.core.values import InstanceId
from scheduler.kv_rule import KvRule

from ..instance_run import InstanceRun
from ..making_ready import Works
from .child_slots import Failed, Slot, Slots
from .choosing import can_be_saved, kind_of, sleeps_after, to_restore, worth_saving
from .counting import Counting
from .store import Kind, Save, SaveStore, Written
from .telling import Telling
from .writers import Writers

if TYPE_CHECKING:
    from ..owner import Owner

logger = logging.getLogger(__name__)

OPTION = "--slot-save-path"
MOST_SWEEP_SECONDS = 600.0
"""Between two looks for what is too old."""
RESTORE_SECONDS = 10.0
"""So long a load may take longer for one save that is read back; then it goes on without."""
BEFORE_SLEEP_SHARE = 0.5
CAME_BACK_SHARE = 0.9
"""So much of a restored save must have been found by a request, to say that it came back for it."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Child:
    """`seen` are the tasks of its slots when these were saved, or restored into."""

    kind: Kind
    folder: Path
    writers: Writers = field(default_factory=Writers)
    seen: dict[int, int | None] = field(default_factory=dict)
    awaited: dict[str, tuple[Save, float]] = field(default_factory=dict)
    """Restored and not come back for yet, with the seconds that it took."""
    begun: int = 0
    """Requests of which the end was not told."""
    has_written: bool = False
    """Since its slots were last saved a request may have written what is worth it."""
    before_sleep: asyncio.TimerHandle | None = None

    @property
    def may_be_worth_it(self) -> bool:
        return self.has_written or self.begun > 0


class KvSaves:
    """Without a store it does nothing."""

    def __init__(
        self,
        owner: Owner,
        slots: Slots,
        store: SaveStore | None = None,
        rule: KvRule | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._owner = owner
        self._slots = slots
        self._store = store
        self._rule = rule or KvRule()
        self._clock = clock
        self._children: dict[InstanceId, _Child] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kv-saves")
        self._sides: set[asyncio.Task[None]] = set()
        self._kinds: set[Kind] = set()
        """Of which there may be saves."""
        self._next_sweep: asyncio.TimerHandle | None = None
        self._bytes_per_second = 0.0
        self._bytes_per_token: dict[Kind, float] = {}
        self.counting = Counting(owner.tally)
        self._telling = Telling(owner, self.counting)
        owner.before_exit.append(self._before_exit)
        owner.buried.append(self._gone)

    # The folder -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Before the first child. A folder that cannot be used is said, and nothing is saved."""
        if self._store is None:
            return
        try:
            dropped = await self._in_thread(self._store.open)
        except OSError as failure:
            logger.warning("conversations are not saved: %s", failure)
            self._store = None
            return
        self._telling.dropped(dropped)
        self._kinds = {save.kind for save in self._store}
        await self._count_files()
        self._sweep_later()

    async def close(self) -> None:
        """What children have written is taken in first."""
        while self._sides:
            await asyncio.gather(*self._sides, return_exceptions=True)
        if self._next_sweep is not None:
            self._next_sweep.cancel()
        await asyncio.to_thread(self._thread.shutdown)

    def _sweep_later(self) -> None:
        seconds = min(MOST_SWEEP_SECONDS, self._rule.lasts_seconds)
        loop = asyncio.get_running_loop()
        self._next_sweep = loop.call_later(seconds, lambda: self._begin(self._sweep()))

    async def _sweep(self) -> None:
        """Also while nothing is saved: they are what people have written."""
        assert self._store is not None
        self._telling.dropped(await self._in_thread(self._store.drop_old))
        await self._count_files()
        self._sweep_later()

    def prepared(self, instance: InstanceId, spec: LaunchSpec, grant: Grant) -> LaunchSpec:
        """The same, told where its child may write slots, if they are saved."""
        if self._store is None or not can_be_saved(spec):
            return spec
        try:
            folder = self._store.folder_of_child()
        except OSError as failure:
            self._telling.failed(failure)
            return spec
        self._children[instance] = _Child(kind_of(spec, grant), folder)
        return replace(spec, argv=(*spec.argv, OPTION, str(folder)))

    def _gone(self, run: InstanceRun) -> None:
        child = self._children.pop(run.instance, None)
        if child is not None and self._store is not None:
            if child.before_sleep is not None:
                child.before_sleep.cancel()
            # After what it has written has been taken in: there is one thread.
            self._begin(self._in_thread(self._store.remove_folder, child.folder))

    # Who used it ----------------------------------------------------------------------------------

    def given(self, run: InstanceRun, tenant: str) -> None:
        """A request of the tenant goes to it."""
        if (child := self._children.get(run.instance)) is not None:
            child.writers.given(tenant)
            child.begun += 1

    def ended(self, run: InstanceRun, tenant: str, tokens: int | None, cached: int | None) -> None:
        """A request has ended, of so many tokens with its answer, of which `cached` were there."""
        child = self._children.get(run.instance)
        if child is None:
            return
        self._save_before_sleep(run, child)
        child.begun -= 1
        child.has_written |= tokens is None or tokens >= self._rule.least_tokens
        if tokens is None:
            return
        child.writers.stated(tenant, tokens)
        for name, (save, seconds) in list(child.awaited.items()):
            if save.tenant == tenant and (cached or 0) >= CAME_BACK_SHARE * save.tokens:
                del child.awaited[name]
                self.counting.came_back(save, seconds)
                if self._store is not None:
                    self._begin(self._in_thread(self._store.used, save))
                return

    # Out of an instance ---------------------------------------------------------------------------

    def _before_exit(self, run: InstanceRun) -> Coroutine[Any, Any, None] | None:
        child = self._children.get(run.instance)
        if child is None or not child.may_be_worth_it or not self._could_be_restored(run, child):
            return None
        return self._save(run, child)

    def _could_be_restored(self, run: InstanceRun, child: _Child) -> bool:
        """Not of one that sleeps, and not of one whose preset has been edited or removed."""
        spec = self._owner.offer.specs.get(run.spec.preset)
        is_offered = spec is not None and kind_of(spec, run.grant).made == child.kind.made
        return run.serves and is_offered

    def _save_before_sleep(self, run: InstanceRun, child: _Child) -> None:
        """A child that falls asleep asks nobody. So it is saved half-way there, if it is still
        idle then; that is work, and it begins to count anew."""
        if child.before_sleep is not None:
            child.before_sleep.cancel()
        if (seconds := sleeps_after(run.spec)) > 0:
            loop = asyncio.get_running_loop()
            half = seconds * BEFORE_SLEEP_SHARE
            child.before_sleep = loop.call_later(half, self._save_idle, run, child)

    def _save_idle(self, run: InstanceRun, child: _Child) -> None:
        instance = self._owner.planner.instances.get(run.instance)
        is_worth_it = child.has_written and self._could_be_restored(run, child)
        if is_worth_it and instance is not None and not instance.leases:
            self._begin(self._save(run, child))

    async def _save(self, run: InstanceRun, child: _Child) -> None:
        """Within the time that an exit may wait. What has been written by then is kept."""
        child.has_written = False
        begun = self._clock()
        written: list[Written] = []
        try:
            async with asyncio.timeout(self._rule.wait_seconds):
                await self._write(run, child, begun + self._rule.wait_seconds, written)
        except TimeoutError:
            logger.info("%s: not all of its slots were saved in time", run.name)
        if written:
            self._begin(self._take_in(run, written, self._clock() - begun))

    async def _write(
        self, run: InstanceRun, child: _Child, until: float, written: list[Written]
    ) -> None:
        slots = worth_saving(await self._slots.look(run.address), child.seen, self._rule)
        speed = await self._slots.reading_speed(run.address) if slots else 0.0
        tenants = child.writers.of([slot.tokens for slot in slots])
        for slot, tenant in zip(slots, tenants, strict=True):
            if self._clock() + self._expected_seconds(child.kind, slot) > until:
                logger.info("%s: a slot of %d tokens is not saved: no time", run.name, slot.tokens)
                continue
            path = child.folder / f"{secrets.token_hex(16)}.kv"
            begun = self._clock()
            done = await self._slots.save(run.address, slot.id, path.name)
            if isinstance(done, Failed):
                self._telling.not_saved(run, done)
                path.unlink(missing_ok=True)
                if done.for_good:
                    return
                continue
            self._learn(child.kind, done.size, done.tokens, self._clock() - begun)
            child.seen[slot.id] = slot.task
            seconds = done.tokens / speed if speed else 0.0
            alone = child.writers.is_one
            written.append(Written(path, child.kind, tenant, alone, done.tokens, seconds))

    def _expected_seconds(self, kind: Kind, slot: Slot) -> float:
        """0 while nothing is known."""
        if not self._bytes_per_second:
            return 0.0
        return self._bytes_per_token.get(kind, 0.0) * slot.tokens / self._bytes_per_second

    def _learn(self, kind: Kind, size: int, tokens: int, seconds: float) -> None:
        if tokens and seconds > 0:
            self._bytes_per_token[kind] = size / tokens
            self._bytes_per_second = size / seconds

    async def _take_in(self, run: InstanceRun, written: list[Written], seconds: float) -> None:
        """It goes on when the instance has exited: its files lie in its folder until then."""
        assert self._store is not None
        saves: list[Save] = []
        for each in written:
            self._kinds.add(each.kind)
            try:
                save, dropped = await self._in_thread(self._store.add, each)
            except OSError as failure:
                self._telling.failed(failure)
                continue
            self._telling.works()
            self._telling.dropped(dropped)
            if save is not None:
                saves.append(save)
        if self._owner.offer.known:
            names = frozenset(self._owner.offer.specs)
            self._telling.dropped(await self._in_thread(self._store.keep_presets, names))
        await self._count_files()
        if saves:
            self._telling.saved(run, saves, seconds)

    # Into an instance -----------------------------------------------------------------------------

    def before_ready(self, run: InstanceRun) -> Works | None:
        """What is to be done between a child's `ready` and its first client, if anything."""
        child = self._children.get(run.instance)
        if child is None or child.kind not in self._kinds:
            return None
        return partial(self._restore, run, child)

    async def _restore(self, run: InstanceRun, child: _Child) -> None:
        assert self._store is not None
        begun = self._clock()
        waiting = self._owner.waiting.tenants(run.spec.preset)
        # A wake begins with empty slots, as a load does.
        child.seen, child.awaited = {}, {}
        restored: list[Save] = []
        saves = await self._in_thread(self._store.of, child.kind)
        chosen = to_restore(saves, waiting, run.spec.parallel, self._rule)
        slots = await self._slots.look(run.address) if chosen else []
        for save, slot in zip(chosen, slots, strict=False):
            if restored and self._clock() - begun > self._rule.wait_seconds:
                break
            if await self._restore_one(run, child, save, slot):
                restored.append(save)
        if restored:
            self._telling.restored(run, restored, self._clock() - begun)

    async def _restore_one(self, run: InstanceRun, child: _Child, save: Save, slot: Slot) -> bool:
        """What the child does not take is dropped: it would not take it the next time either, and
        a child may die of it."""
        assert self._store is not None
        begun = self._clock()
        link = await self._in_thread(self._store.lend, save, child.folder)
        if link is None:
            self._telling.dropped([(save, "broken")])
            return False
        try:
            async with asyncio.timeout(RESTORE_SECONDS):
                done = await self._slots.restore(run.address, slot.id, link.name)
        except TimeoutError:
            done = Failed(f"it was not restored within {RESTORE_SECONDS:g} s")
        except asyncio.CancelledError:
            if run.leaving is None:  # the child has died of itself, maybe of this
                self._refused(run, save, "the child died meanwhile")
            raise
        finally:
            link.unlink(missing_ok=True)
        if isinstance(done, Failed) or done.tokens != save.tokens:
            words = done.words if isinstance(done, Failed) else "another number of tokens came back"
            self._refused(run, save, words)
            return False
        child.seen[slot.id] = slot.task
        child.writers.given(save.tenant)
        child.awaited[save.name] = save, self._clock() - begun
        return True

    def _refused(self, run: InstanceRun, save: Save, words: str) -> None:
        assert self._store is not None
        logger.warning("%s: a saved conversation is dropped: %s", run.name, words)
        self._begin(self._in_thread(self._store.drop, save))
        self._telling.dropped([(save, "refused")])

    # Tasks ---------------------------------------------------------------------------------------

    async def _count_files(self) -> None:
        if self._store is not None:
            self.counting.files(await self._in_thread(list, self._store))

    async def _in_thread(self, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: do(*args, **kwargs))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """It outlives the owner: what is written shall not be lost at a stop."""
        task = asyncio.get_running_loop().create_task(work, name="kv-saves")
        self._sides.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._sides.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("a saved conversation was lost", exc_info=failure)
