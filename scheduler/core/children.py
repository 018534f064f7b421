"""What children do: their reports, their silence, their ends; and what time does to them."""

from __future__ import annotations

from . import leaving
from .books import Books
from .decisions import Decision, Reason, Revoke
from .events import (
    AllocationReported,
    Exited,
    LoadingReported,
    ReadyReported,
    Silent,
    SleepingReported,
    SlotsSeen,
    StreamsHeld,
)
from .failures import failed_to_load
from .granting import Granting
from .instances import Instance
from .siting import surplus_after
from .sizes import NO_NEED, Need, loaded, on_each
from .states import Cue, State
from .timers import idle_end
from .values import Code, Exit, Refusal

Heard = (
    LoadingReported
    | ReadyReported
    | AllocationReported
    | SleepingReported
    | SlotsSeen
    | StreamsHeld
    | Silent
    | Exited
)


class Children:
    def __init__(self, books: Books, granting: Granting) -> None:
        self._config = books.config
        self._fleet = books.fleet
        self._presets = books.presets
        self._queue = books.queue
        self._failures = books.failures
        self._learned = books.learned
        self._ledger = books.ledger
        self._surplus = books.surplus
        self._granting = granting

    def hear(self, event: Heard, now: float) -> list[Decision]:
        """An event about a child that is gone comes too late, and is harmless."""
        instance = self._fleet.instances.get(event.instance)
        if instance is None:
            return []
        match event:
            case LoadingReported(_, progress):
                self._note_loading(instance, progress, now)
            case ReadyReported():
                return self._note_ready(instance, now)
            case AllocationReported(_, need):
                self._note_allocation(instance, need)
            case SleepingReported():
                self._note_sleep(instance, now)
            case SlotsSeen(_, busy):
                return self._end_abandoned(instance, busy, now)
            case StreamsHeld(_, unread):
                instance.holds_unread = unread
            case Silent():
                return self._replace_hung(instance, now)
            case Exited(_, exit):
                return self._bury(instance, exit, now)
        return []

    def _note_loading(self, instance: Instance, progress: float | None, now: float) -> None:
        if instance.child is not State.LOADING:
            instance.load_begins(now)
        if instance.child is State.SLEEPING:
            self._ledger.hold(instance.id, instance.takes)  # it wakes by itself
        instance.advance(Cue.LOADING)
        instance.note_progress(progress, now)

    def _note_sleep(self, instance: Instance, now: float) -> None:
        """L8: under a lease this releases nothing; and nobody is granted a sleeper. L4: what it
        still holds, if anything, is told by the next reading of its process."""
        if not instance.has_loaded:
            instance.loaded_at = instance.last_used = now  # its `ready` was lost
        instance.advance(Cue.ASLEEP)
        instance.beside = False
        if instance.idle:
            self._ledger.hold(instance.id, NO_NEED)

    def _note_ready(self, instance: Instance, now: float) -> list[Decision]:
        before, wakes = instance.state, instance.has_loaded
        if instance.child is State.SLEEPING:
            self._ledger.hold(instance.id, instance.takes)  # it woke without a word
        if wakes and instance.takes.passing:
            self._ledger.hold(instance.id, loaded(instance.takes))
        if instance.child is State.LOADING and not instance.leaving and not wakes:
            self._learned.note_load(instance.preset.name, now - instance.load_began_at)
        instance.advance(Cue.READY)
        if instance.state is State.LOADED and before is not State.LOADED:
            instance.last_used = instance.loaded_at = now
            # A3: with nobody left who wanted it, it is first in line to go.
            wanted = instance.preset.name in self._queue.entries or instance.spare
            instance.unwanted = instance.idle and not wanted
        if not instance.leaving:
            # A4: a load that succeeded ends the row of failures.
            self._failures.note_success(instance.preset.name)
        if instance.state is not State.LOADED or instance.stale:
            return []
        # The old version has a successor: it ends what it has begun.
        old = [i for i in instance.siblings.values() if i.stale and not i.leaving]
        return [leaving.leave(each, Reason.REPLACED, now) for each in old]

    def _note_allocation(self, instance: Instance, need: Need) -> None:
        """Held from now on; what it took beyond its grant is added to the preset's next need. Of a
        sleeper it is what its process keeps."""
        self._ledger.hold(instance.id, need)
        instance.changed = True
        instance.touched[instance.id] = instance
        if instance.child is State.SLEEPING:
            return
        instance.allocated = need
        preset = instance.preset.name
        now_known = self._presets.get(preset)
        if instance.grant.need and not instance.alone and not instance.stale and now_known:
            if now_known.shape != instance.shape:
                return  # it was granted by figures that are no longer the preset's
            before = self._surplus.get(preset, ())
            self._surplus[preset] = surplus_after(before, instance.grant, need)

    def _end_abandoned(self, instance: Instance, busy: int, now: float) -> list[Decision]:
        """Abandoned leases end as the busy slots fall below the leases, the oldest first."""
        over = max(0, len(instance.leases) - max(0, busy))
        decisions: list[Decision] = []
        for request in sorted(instance.abandoned)[:over]:
            if lease := self._granting.end_lease(request, instance, now):
                self._granting.settle(lease, instance, now)
                decisions.append(Revoke(request, instance.id))
        return decisions

    def _replace_hung(self, instance: Instance, now: float) -> list[Decision]:
        """It answers nobody any more, so there is no answer to wait for. Who waits gets a new one;
        whose answer was under way learns of its end."""
        if instance.state is State.STOPPING or not instance.has_loaded:
            return []  # it is being ended; or loads, and a load that hangs is a load that stalls
        figures = (("answers", len(instance.leases)),)
        return [leaving.kill(instance, Reason.HUNG, now, figures=figures)]

    def _bury(self, instance: Instance, exit: Exit, now: float) -> list[Decision]:
        """Its room is free only now. Leases on it are over; whether it failed to load is A4's."""
        failed = failed_to_load(instance, exit)
        if instance.state is State.STOPPING:
            self._learned.note_exit(now - instance.left_at)
        spare = instance.spare
        self._fleet.remove(instance)
        self._ledger.release(instance.id, now)
        decisions: list[Decision] = []
        for request in sorted(instance.leases):
            self._granting.settle(instance.leases[request], instance, now)
            decisions.append(Revoke(request, instance.id))
        decisions += [Revoke(request, instance.id) for request in sorted(instance.looks)]
        if failed:
            decisions += self._fail_load(instance, exit, now, spare=spare)
        return decisions

    def _fail_load(
        self, instance: Instance, exit: Exit, now: float, *, spare: bool
    ) -> list[Decision]:
        """A4: out of memory keeps its place, three loads in all; else all its waiters are told. The
        waiters of a `spare` one are served by another, and hear nothing of it."""
        preset = instance.preset.name
        if spare:
            self._failures.record(preset, Code.MODEL_LOAD_FAILED, exit, now)
            return []
        code = Code.MODEL_LOAD_FAILED
        if exit.out_of_memory and instance.alone:
            self._failures.note_too_large(preset)
            code = Code.OUT_OF_MEMORY
        elif exit.out_of_memory:
            if self._failures.may_retry_out_of_memory(preset):
                self._retry_with_less(instance)
                return []
            code = Code.OUT_OF_MEMORY
        failure = self._failures.record(preset, code, exit, now)
        again = exit.out_of_memory and not instance.alone
        worth_asking_again = failure.until - now if again else None
        granted = tuple(on_each(instance.grant.need).items()) if exit.out_of_memory else ()
        told = Refusal(code, worth_asking_again, exit, granted=granted)
        return self._granting.refuse_all(preset, told)

    def _retry_with_less(self, instance: Instance) -> None:
        """A4: with the next smaller context; at the smallest, after one more victim."""
        if instance.step:
            self._failures.try_smaller(instance.preset.name, instance.step)
        elif entry := self._queue.entries.get(instance.preset.name):
            entry.evict_first = True

    # What time brings ---------------------------------------------------------------

    def note_time(self, instance: Instance, now: float) -> list[Decision]:
        """Whatever of it is due."""
        decisions = self._end_looks(instance, now) if instance.looks else []
        stalled = instance.stalls_at(self._config.load_stall_seconds)
        if stalled is not None and stalled <= now:
            decisions += self._end_stalled_load(instance, now)
        wanted = instance.preset.name in self._queue.entries
        ends = idle_end(instance, self._config, wanted=wanted)
        if ends is not None and ends <= now:
            figures = (("idle_for", round(now - instance.last_used, 3)),)
            decisions.append(leaving.ask_exit(instance, Reason.IDLE, now, figures=figures))
        return decisions + leaving.kill_overdue(instance, now)

    def _end_looks(self, instance: Instance, now: float) -> list[Decision]:
        """A8: nobody looks for longer than that."""
        over = sorted(request for request, until in instance.looks.items() if until <= now)
        for request in over:
            self._fleet.end_look(request)
        return [Revoke(request, instance.id) for request in over]

    def _end_stalled_load(self, instance: Instance, now: float) -> list[Decision]:
        """A load or a wake that does not get on holds a loader that others wait for: it is killed,
        and has failed."""
        patience = self._config.load_stall_seconds
        was_wanted = not instance.leaving
        decisions: list[Decision] = [leaving.kill(instance, Reason.LOAD_STALLED, now)]
        if was_wanted:
            exit = Exit(signal=9, words=f"no progress for {patience:g} s while loading")
            decisions += self._fail_load(instance, exit, now, spare=instance.spare)
        return decisions
