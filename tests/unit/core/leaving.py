"""Who may drain, who is asked to exit and who is killed, as the rules have it (A3, A6, V1-V5)."""

from __future__ import annotations

import math
from collections.abc import Collection

from scheduler.core.decisions import AskExit, Kill, Reason
from scheduler.core.values import Exit, PresetName, VictimPolicy

from .outside import Child, Outside, Since


class Leaving(Outside):
    # Drains -------------------------------------------------------------------

    def drain(self, child: Child, reason: Reason) -> None:
        assert child.read_by_someone, "drained what nobody reads"
        assert not child.going
        assert not child.draining or reason is not child.drain_reason, "drained twice"
        assert self.may_leave(child, reason)
        child.draining, child.drain_reason = True, reason

    def drain_for(self, instance: int, head: PresetName) -> None:
        """A6, A3."""
        child = self.children[instance]
        assert head == self.pending()[0], "only the head may have others drained"
        assert not self.startup_only(head), "A10: drained for a start-up load"
        assert not self.is_broken(head), "A4: drained for a broken one"
        assert child.read_by_someone, "drained what nobody reads"
        assert not child.going
        assert not child.spec.pinned, "V1"
        assert child.spec.name != head, "drained for itself"
        passes_on = child.drain_for is not None
        if passes_on:
            assert self.room.get(head) != instance, "drained twice"
            assert self.room.get(child.drain_for) != instance, "A2: another's room"
        else:
            assert child.staying, "drained though it goes"
            assert self.now >= self.drains(child, head).first, "A6: drained too early"
        assert self.config.models_max, "A6: drained though no slot is missing"
        assert self.free() - passes_on < 1, "A6: drained though room is coming"
        assert head not in self.room, "A6: drained though its room is made"
        assert not self.eligible(head, surely=True), "A6: drained though an idle one could go"
        child.draining, child.drain_reason, child.drain_for = True, Reason.EVICTED, head
        self.room[head] = instance

    def undrain(self, instance: int) -> None:
        child = self.children[instance]
        assert child.draining
        assert not child.going
        assert child.drain_reason is not Reason.UNLOADED, "an edit undid a person's unload"
        if child.drain_reason is Reason.EVICTED:
            assert self.shut or self.may_be_undone(instance), "A3: traffic undid a drain"
            self.room = {p: v for p, v in self.room.items() if v != instance}
        else:
            assert self.runs_its_preset(child)
        child.draining, child.drain_reason, child.drain_for = False, None, None

    def may_be_undone(self, instance: int) -> bool:
        """A3: nobody needs it, its room is covered otherwise, or it was pinned."""
        child = self.children[instance]
        head = child.drain_for
        return (
            child.spec.pinned
            or self.room.get(head) != instance
            # ... unless others stand before its entry, who would take that slot.
            or (head == self.pending()[0] and self.is_covered_otherwise(instance))
            or bool(self.eligible(head))
        )

    def is_covered_otherwise(self, instance: int) -> bool:
        """A slot is free or on its way that is not promised to another."""
        head = self.children[instance].drain_for
        promised = sum(preset != head for preset in self.room)
        return self.config.models_max - len(self.children) + self.stopping() - 1 - promised >= 1

    def runs_its_preset(self, child: Child) -> bool:
        spec = self.presets.get(child.spec.name)
        return spec is not None and spec.fingerprint == child.spec.fingerprint

    def may_leave(self, child: Child, reason: Reason) -> bool:
        match reason:
            case Reason.REMOVED:
                return child.spec.name not in self.presets
            case Reason.REPLACED:
                return child.spec.name in self.presets and not self.runs_its_preset(child)
            case Reason.UNLOADED:
                return self.unloading
        return False

    def end(self, decision: AskExit | Kill) -> None:
        instance, reason, for_preset = decision.instance, decision.reason, decision.for_preset
        if isinstance(decision, Kill):
            self.kill(instance, reason, for_preset)
            return
        child = self.children[instance]
        assert not child.going, "asked twice"
        assert child.mood != "loading", "a loading child does not read its stdin"
        assert child.spec.stop_timeout_seconds > 0
        assert not self.forcing or not child.leases or reason is not Reason.UNLOADED
        self.stop(instance, reason, for_preset)
        child.asked_at = self.now
        child.overdue_at = self.now + child.spec.stop_timeout_seconds

    def kill(self, instance: int, reason: Reason, for_preset: PresetName | None) -> None:
        child = self.children[instance]
        assert not child.killed, "killed twice"
        if reason is Reason.STOP_TIMEOUT:
            assert child.asked_at is not None
            assert child.overdue_at <= self.now, "killed too early"
        elif reason is Reason.HUNG:
            assert instance == self.hanging, "killed though it answers"
        elif reason is Reason.LOAD_STALLED:
            due = self.stalls_at(child)
            assert due is not None, "killed for a load that is none"
            assert due <= self.now, "killed though it got on"
            if child.staying:
                self.gave_up_memory = False
                words = f"no progress for {self.config.load_stall_seconds:g} s while loading"
                self.note_failed_load(child.spec.name, Exit(signal=9, words=words))
        else:
            assert not child.going
            cuts = self.forcing and reason is Reason.UNLOADED and child.leases
            assert child.mood == "loading" or child.spec.stop_timeout_seconds == 0 or cuts
            self.stop(instance, reason, for_preset)
        child.killed = True

    def stop(self, instance: int, reason: Reason, for_preset: PresetName | None) -> None:
        child = self.children[instance]
        if reason in (Reason.EVICTED, Reason.UNWANTED):
            wanted = reason is Reason.UNWANTED or not self.is_broken(for_preset)
            assert wanted, "A4: evicted for a broken one"
            self.evict(instance, reason, for_preset)
            return
        if reason is Reason.IDLE:
            self.end_idle(child)
            return
        assert not child.read_by_someone or self.forcing, "stopped under a lease"
        assert child.drain_reason is reason or self.may_leave(child, reason)

    # Victims ------------------------------------------------------------------

    def eligible(self, head: PresetName, *, surely: bool = False) -> dict[int, Child]:
        """V1, and the loads of A3: who may be a victim, or who is one by every reading."""
        return {
            number: child
            for number, child in self.children.items()
            if child.staying
            and not child.read_by_someone
            and not child.spec.pinned
            and (
                self.is_unwanted_load(child, surely=surely)
                if child.mood == "loading"
                else self.residency_is_over(child, head, surely=surely)
                and self.waiters_protect_no_more(child, head, surely=surely)
            )
        }

    def is_unwanted_load(self, child: Child, *, surely: bool) -> bool:
        looked_for = self.asks(child.spec.name, looks=True)
        return self.place(child.spec.name) is None and not (surely and looked_for)

    def residency_is_over(self, child: Child, head: PresetName, *, surely: bool) -> bool:
        if child.unwanted:
            return True
        if child.mood == "sleeping" and not surely:
            return True
        since = self.head.get(head) or Since(self.now, self.now)
        loaded_at, head_since = (
            (child.loaded.last, since.last) if surely else (child.loaded.first, since.first)
        )
        longest = head_since + self.max_wait(head)
        return self.now >= min(loaded_at + self.residency(child), longest)

    def waiters_protect_no_more(self, child: Child, head: PresetName, *, surely: bool) -> bool:
        mine = self.place(child.spec.name)
        if mine is None or mine > self.place(head):
            return True
        if child.mood == "sleeping" or surely:
            return False  # that their time is over is judged where drains are due (A6)
        since = self.head.get(head) or Since(self.now, self.now)
        return self.now >= since.first + self.max_wait(head)

    def eviction_order(self, number: int) -> tuple[int, float, int]:
        """V2."""
        child = self.children[number]
        rank = {"loading": 0, "sleeping": 2, "loaded": 3}[child.mood]
        if child.unwanted:
            rank = 1
        if child.leases:
            rank = 4
        if child.mood == "loading" and not child.leases:
            rank = 0
        if child.holds_unread:
            rank = 5
        return rank, child.last_used, number

    def judge_victim(self, instance: int, candidates: Collection[int]) -> None:
        """V2."""
        orders = {number: self.eviction_order(number) for number in candidates}
        if self.config.victim_policy is VictimPolicy.LRU:
            assert orders[instance] == min(orders.values()), "V2: another one goes first"
            return
        least = min(rank for rank, *_ in orders.values())
        latest = max(self.wanted_in(n) for n, (rank, *_) in orders.items() if rank == least)
        assert orders[instance][0] == least, "V2: another kind goes first"
        assert self.wanted_in(instance) >= latest - 1e-6, "V2: another one is wanted later"

    def wanted_in(self, number: int) -> float:
        """The mean time between its requests, each of which fades over half an hour, of five hours
        at most, and the time since it was last used."""
        child = self.children[number]
        times = self.asked.get(child.spec.name, [])
        count = sum(math.exp((at - self.now) / 1800.0) for at in times)
        return 1800.0 / max(count, 0.1) + self.now - child.last_used

    def evict(self, instance: int, reason: Reason, for_preset: PresetName | None) -> None:
        child = self.children[instance]
        if child.drain_for is not None:
            assert for_preset == child.drain_for, "its room is another's"
            assert not child.read_by_someone, "stopped under a lease"
            return
        assert for_preset == self.pending()[0], "only the head may evict"
        assert not self.startup_only(for_preset), "A10: a start-up load evicted"
        assert (reason is Reason.UNWANTED) == (child.mood == "loading")
        assert instance in self.eligible(for_preset), "V1: this one is never a victim"
        asleep = self.staying(for_preset) is not None
        once_more = for_preset in self.evict_once_more
        if (self.short_of_a_slot(for_preset) or once_more) and not asleep:
            candidates = {**self.eligible(for_preset, surely=True), instance: child}
            self.judge_victim(instance, candidates)
            self.drain_no_more_for(for_preset)
            if once_more and for_preset in self.room:
                self.room_before[for_preset] = self.room[for_preset]
            self.room[for_preset] = instance
            if once_more:
                self.awaited[for_preset] = instance
            self.evict_once_more.discard(for_preset)
            return
        assert reason is Reason.UNWANTED, "A5: needless victim"
        assert self.loading(beside=False) >= self.config.models_max_loading, "A3: needless kill"

    def short_of_a_slot(self, preset: PresetName) -> bool:
        """A drain under way does not count: who is idle goes in its stead."""
        drains = self.drained_for(preset) is not None
        made = preset in self.room and not drains
        return self.config.models_max > 0 and not made and self.free() - drains < 1

    def drained_for(self, preset: PresetName) -> Child | None:
        victim = self.children.get(self.room.get(preset))
        return victim if victim is not None and not victim.going else None

    def drain_no_more_for(self, preset: PresetName) -> None:
        if (victim := self.drained_for(preset)) is not None:
            del self.room[preset]
            victim.drain_for = None

    def end_idle(self, child: Child) -> None:
        """V5."""
        keep = self.keep_alive(child.spec)
        assert keep is not None, "V5: ended idle without a keep-alive"
        assert not child.leases, "V5: ended idle under a lease"
        assert not child.spec.pinned, "V5: a pinned one ended idle"
        assert self.place(child.spec.name) is None, "V5: ended though somebody waits"
        assert child.staying, "V5: ended though it goes"
        if keep == 0:
            assert child.used or child.unwanted, "V5: ended before its first use"
        assert self.now >= max(child.loaded.first, child.released_at) + keep, "V5: ended too early"
