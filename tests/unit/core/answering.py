"""Who is granted, refused and revoked, as the rules have it (A7, A8)."""

from __future__ import annotations

from scheduler.core.decisions import Grant, Reject
from scheduler.core.values import Code, Kind, PresetName, Refusal

from .leaving import Leaving
from .outside import RANK, WORK, Ask, Child, own

FULL = frozenset({Code.QUEUE_FULL, Code.MODEL_QUEUE_FULL, Code.TENANT_QUEUE_FULL})
AT_THE_DOOR = FULL | {Code.SHUTTING_DOWN}
NOT_LET_IN = AT_THE_DOOR | {Code.MODEL_NOT_FOUND, Code.MODEL_BACKING_OFF}


class Answering(Leaving):
    def check_queued(self, ask: Ask) -> None:
        """A7, A8."""
        if ask.kind is Kind.GET:
            assert self.is_loaded_for(ask.preset), "A8: a look that waits for no load"
        elif ask.kind in WORK:
            limit = own(self.presets[ask.preset].queue_limit, self.config.queue_limit_per_preset)
            assert not limit or self.requests(ask.preset) <= limit, "A7: too many for a preset"
            assert len(self.waiting) <= self.config.queue_limit, "A7: too many"

    def answer(self, decision: Grant | Reject) -> None:
        match decision:
            case Grant(request, instance):
                self.grant(request, self.children[instance])
            case Reject(request, refusal):
                self.check_refusal(self.waiting.pop(request), refusal)

    def grant(self, request: int, child: Child) -> None:
        ask = self.waiting.pop(request)
        assert ask.preset == child.spec.name
        assert child.mood == "loaded", "granted on a child that does not answer"
        assert child.staying, "granted on a child that is on its way out"
        if ask.kind is Kind.GET:
            child.looks[request] = self.now
            return
        older = [other for other in self.asks(ask.preset) if other.place < ask.place]
        child.unwanted = False
        if ask.kind in WORK:
            assert all(RANK[a.kind] for a in older), "overtaken within its entry"
            child.last_used, child.used = self.now, True
            child.leases.add(request)

    def revoke(self, request: int, instance: int) -> None:
        if request in self.idle:
            self.idle.remove(request)
            return
        if instance == self.dead:
            self.revoked.remove(request)
            return
        began = self.children[instance].looks.pop(request)
        assert self.now >= began + self.config.look_seconds, "A8: a look was cut short"

    def check_refusal(self, ask: Ask, refusal: Refusal) -> None:
        match refusal.code:
            case Code.MODEL_NOT_FOUND | Code.MODEL_REMOVED:
                assert ask.preset not in self.presets
            case Code.MODEL_LOAD_FAILED | Code.OUT_OF_MEMORY | Code.MODEL_BACKING_OFF:
                self.check_failure(ask, refusal)
            case Code.MODEL_BROKEN:
                assert self.is_broken(ask.preset)
                assert refusal.exit == self.failed[ask.preset]
                assert self.config.models_max, "refused though there is always room"
            case Code.QUEUE_FULL | Code.MODEL_QUEUE_FULL | Code.QUEUE_TIMEOUT:
                assert refusal.retry_after_seconds > 0, "A7: refused without Retry-After"
                self.check_bounds(ask, refusal.code)
            case Code.MODEL_NOT_LOADED:
                assert ask.kind is Kind.GET
                assert not self.is_loaded(ask.preset), "A8: refused a look at what is loaded"
            case Code.DOES_NOT_FIT | Code.BLOCKED_BY_PINNED:
                self.check_lack_of_room(ask, refusal)
            case Code.UNLOADED:
                assert self.unloading
                assert self.is_loaded_for(ask.preset), "an unload lost a waiter"
            case Code.SHUTTING_DOWN:
                assert self.shut

    def is_loaded(self, preset: PresetName) -> bool:
        child = self.staying(preset)
        return child is not None and child.mood == "loaded"

    def check_bounds(self, ask: Ask, code: Code) -> None:
        """A7."""
        if code is Code.QUEUE_FULL:
            assert len(self.waiting) >= self.config.queue_limit
        elif code is Code.MODEL_QUEUE_FULL:
            limit = own(self.presets[ask.preset].queue_limit, self.config.queue_limit_per_preset)
            assert self.requests(ask.preset) >= limit > 0
        else:
            assert ask.since + self.config.queue_wait_seconds <= self.now + 1e-6
            assert ask.kind is not Kind.STARTUP
            assert not self.is_loaded_for(ask.preset), "A7: the clock ran during a load"
            assert ask.preset not in self.room, "A7: the clock ran while room was made"

    def check_failure(self, ask: Ask, refusal: Refusal) -> None:
        assert refusal.exit is not None, "A4: refused without saying how the child ended"
        if refusal.code is Code.MODEL_BACKING_OFF:
            left = self.backs_off_until[ask.preset] - self.now
            assert refusal.retry_after_seconds == left > 0
            assert ask.kind is not Kind.LOAD
        else:
            assert self.failed_now == ask.preset
            assert self.gave_up_memory == (refusal.code is Code.OUT_OF_MEMORY)

    def check_lack_of_room(self, ask: Ask, refusal: Refusal) -> None:
        taken = len(self.children) + len(self.made_for_others(ask.preset))
        assert taken >= self.config.models_max > 0
        if refusal.code is Code.DOES_NOT_FIT:
            assert ask.kind is Kind.STARTUP
            going = any(child.going for child in self.children.values())
            assert not going, "skipped while room is coming"
        else:
            pins = [c.spec.name for c in self.children.values() if c.spec.pinned and c.staying]
            assert refusal.blocked_by == tuple(sorted(pins))
            assert len(pins) >= self.config.models_max
            assert ask.preset not in pins
