"""What people do: edit presets, unload, apply, shut down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from . import leaving
from .admission import ASK_AGAIN_SECONDS
from .books import Books
from .decisions import Decision, Reason
from .granting import Granting
from .instances import Instance
from .remotes import Remotes
from .states import State
from .values import Code, PresetName, PresetSpec, Refusal, TenantId

_UNDONE_BY_AN_EDIT = frozenset({Reason.REPLACED, Reason.REMOVED})


def _takes_otherwise(new: PresetSpec, old: PresetSpec) -> bool:
    if new.fingerprint != old.fingerprint:
        return True
    return new.shape is not old.shape and new.shape != old.shape


class Edits:
    def __init__(self, books: Books, granting: Granting, remotes: Remotes) -> None:
        self._remotes = remotes
        self._books = books
        self._presets = books.presets
        self._fleet = books.fleet
        self._queue = books.queue
        self._failures = books.failures
        self._granting = granting

    def take_over(
        self, presets: Iterable[PresetSpec], renamed: Mapping[PresetName, PresetName], now: float
    ) -> list[Decision]:
        """The registry has changed. What runs with other options than its preset now has is stale:
        it serves until nobody reads from it, or until that is asked for (ApplyAsked)."""
        edited = {spec.name: spec for spec in presets}
        decisions: list[Decision] = []
        for name, old in sorted(self._presets.items()):
            new = edited.get(name)
            if new is None and (renamed_to := renamed.get(name)) in edited:
                self._follow(name, renamed_to, now)
            elif new is None:
                decisions += self._granting.refuse_all(name, Refusal(Code.MODEL_REMOVED))
            if new is None or new.fingerprint != old.fingerprint:
                # What failed was not this, and what was learned was of another.
                self._failures.forget(name)
                self._books.learned.forget(name)
                self._books.guessed.discard(name)
            if new is None or _takes_otherwise(new, old):
                # What was taken beyond the old figures is in the new ones.
                self._books.surplus.pop(name, None)
        self._take_over_surplus(edited)
        self._remotes.take_over(edited, now)
        self._presets.clear()
        self._presets.update(edited)
        self._books.edits += 1
        self._books.kept_apart = any(spec.sharing.restricts for spec in edited.values())
        self._books.growing = tuple(sorted(n for n, spec in edited.items() if spec.replicas > 1))
        self._books.learned.keep_only(edited)
        self._books.demand.keep_only(edited)
        for instance in self._fleet:
            decisions += self._compare_with_its_preset(instance, now)
        for instance in self._fleet:
            if self._may_undrain(instance):
                decisions.append(leaving.undrain(instance))
                for entry in list(self._queue.with_room.values()):
                    self._queue.give_up_room(entry, instance.id)
        return decisions

    def _take_over_surplus(self, edited: Mapping[PresetName, PresetSpec]) -> None:
        """L2: of presets that are new here, or have other figures, what the record knows."""
        for name, new in edited.items():
            old = self._presets.get(name)
            if new.surplus and (old is None or _takes_otherwise(new, old)):
                self._books.surplus[name] = new.surplus

    def _follow(self, name: PresetName, renamed_to: PresetName, now: float) -> None:
        """Who waits keeps its place; what failed under the new name before was not this."""
        self._books.demand.rename(name, renamed_to, now)
        if self._queue.move(name, renamed_to, now):
            self._failures.clear(renamed_to)

    def _compare_with_its_preset(self, instance: Instance, now: float) -> list[Decision]:
        spec = self._presets.get(instance.preset.name)
        self._fleet.set_stale(instance, stale=not instance.runs(spec))
        if spec is not None and not instance.stale:
            self._fleet.set_policy(instance, spec)
        elif spec is not None:
            # Its options are the old ones; its policy is not.
            old = instance.preset
            kept = replace(
                spec, fingerprint=old.fingerprint, parallel=old.parallel, remote=old.remote
            )
            self._fleet.set_policy(instance, kept)
        else:
            self._fleet.set_policy(instance, instance.preset)
        if spec is None and instance.drains_for_an_entry:
            return [leaving.drain(instance, Reason.REMOVED)]  # whoever it drained for may go
        if not instance.stale or instance.leaving:
            return []
        if spec is not None and instance.busy and not spec.remote:
            return []  # what is elsewhere is there at once: the child ends what it has begun
        return [leaving.leave(instance, Reason.REMOVED if spec is None else Reason.REPLACED, now)]

    def _may_undrain(self, instance: Instance) -> bool:
        """Only an edit undoes a drain, and only what an edit (not a person's unload) began."""
        return (
            instance.state is State.DRAINING
            and not instance.stale
            and instance.reason in _UNDONE_BY_AN_EDIT
            and self._fleet.current(instance.preset.name) is None
        )

    def apply(self, preset: PresetName, now: float) -> list[Decision]:
        return [
            leaving.leave(instance, Reason.REPLACED, now)
            for instance in self._fleet.of(preset)
            if instance.stale and (not instance.leaving or instance.drains_for_an_entry)
        ]

    def wish(self, preset: PresetName, tenant: TenantId, seconds: float) -> None:
        for instance in self._fleet.of(preset):
            if tenant in instance.wishes:
                instance.wishes[tenant] = seconds
                self._fleet.touched[instance.id] = instance

    def unload(self, preset: PresetName, now: float, *, force: bool) -> list[Decision]:
        """A load under way is cancelled, and its waiters are told. Those of a loaded instance keep
        their place, and wait for a new one."""
        decisions: list[Decision] = []
        current = self._fleet.current(preset)
        if current is not None and current.state is State.LOADING:
            decisions += self._granting.refuse_all(preset, Refusal(Code.UNLOADED))
        for instance in self._fleet.of(preset):
            if instance.state is State.STOPPING:
                continue
            if force and instance.leases:
                # Asked, a child ends its answers first; and those are to be cut.
                decisions.append(leaving.kill(instance, Reason.UNLOADED, now))
            elif force:
                decisions.append(leaving.ask_exit(instance, Reason.UNLOADED, now))
            elif instance.reason is not Reason.UNLOADED:
                decisions.append(leaving.leave(instance, Reason.UNLOADED, now))
        return decisions

    def shut_down(self) -> list[Decision]:
        """With nobody waiting nothing starts, and the door lets nobody in. Idle instances stay:
        the shell ends the children itself, when the answers are done."""
        self._books.shutting_down = True
        refusal = Refusal(Code.SHUTTING_DOWN, ASK_AGAIN_SECONDS)
        decisions: list[Decision] = []
        for preset in list(self._queue.entries):
            decisions += self._granting.refuse_all(preset, refusal)
        return decisions
