"""Presets that are tried before they are saved: known to one request alone, and gone with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from models_registry.launch import LaunchSpec
from scheduler.core.decisions import AskExit, Decision, Drain, Kill
from scheduler.core.events import Requested
from scheduler.core.values import NO_TENANT, Kind, PresetName, Priority, RequestId
from scheduler.measuring.shapes import NoShape, shape_of, unreported_of
from scheduler.protocol import TRIAL, Refused, Try

from .figures import KnownShape
from .instance_run import InstanceRun
from .offer import problem_of
from .owner import Owner
from .refusals import preset_invalid
from .remote_run import is_remote
from .waiting import Answer, Asked, Run

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Trial:
    """`made_way` are the presets of which instances were to go for it, the first one first."""

    spec: LaunchSpec
    known: KnownShape
    made_way: dict[str, None] = field(default_factory=dict)


class Trials:
    """As operations.py: what is asked takes effect in the owner's turn."""

    def __init__(self, owner: Owner, ids: Iterator[int], bring_back: Callable[[str], None]) -> None:
        """`bring_back` loads a preset if it fits without anybody going."""
        self._owner = owner
        self._ids = ids
        self._bring_back = bring_back
        self._of: dict[RequestId, _Trial] = {}
        self._leaving: dict[str, _Trial] = {}
        """By name, those that are over while an instance of them still runs."""
        owner.stepped.append(self._stepped)
        owner.buried.append(self._buried)

    def begin(self, asked: Try, answer: Answer) -> RequestId:
        """`answer` is called once: with the run, on which the request then has a lease, or with why
        not."""
        request = RequestId(next(self._ids))

        def granted(got: Run | Refused) -> None:
            answer(got)
            if isinstance(got, Refused):
                # Not here: the core is in the midst of a step.
                self._owner.post(lambda: self.over(request))

        def admit() -> None:
            try:
                trial = self._admitted(asked)
            except Refused as refusal:
                answer(refusal)
                return
            self._of[request] = trial
            self._owner.figures.keep_tried(trial.spec.memory_fingerprint, trial.known)
            self._owner.offer = self._owner.offer.trying(trial.spec)
            self._owner.tell_presets()
            preset, now = PresetName(trial.spec.preset), self._owner.clock()
            logger.info("%s is tried", trial.spec.preset)
            self._owner.waiting.add(
                request,
                Asked(preset, granted, Kind.POST, now, NO_TENANT, Priority.LOW, asked.request),
            )
            self._owner.handle(Requested(request, preset, now, Kind.POST, priority=Priority.LOW))

        self._owner.post(admit)
        return request

    def over(self, request: RequestId) -> None:
        """In the owner's turn: its lease has ended, or it waits no more. Of other requests nothing
        happens."""
        trial = self._of.pop(request, None)
        if trial is None:
            return
        name = trial.spec.preset
        logger.info("%s is not tried any more", name)
        self._leaving[name] = trial
        self._owner.offer = self._owner.offer.tried(name)
        self._owner.figures.forget_tried(trial.spec.memory_fingerprint)
        self._owner.tell_presets()
        self._settle(name)

    def _admitted(self, asked: Try) -> _Trial:
        try:
            spec = msgspec.convert(asked.spec, LaunchSpec)
            known = KnownShape(
                shape_of(asked.shape), asked.estimated, unreported=unreported_of(asked.shape)
            )
        except (msgspec.ValidationError, NoShape) as failure:
            raise Refused("invalid_request", f"nothing can be tried of it: {failure}") from failure
        if is_remote(spec):
            raise Refused("invalid_request", "it runs on a remote server: there is nothing to load")
        if problem := problem_of(spec):
            raise preset_invalid(spec.preset, problem)
        name = f"{spec.preset}{TRIAL}"
        if name in self._owner.offer.specs or name in self._leaving:
            raise Refused(
                "conflict", f"'{spec.preset}' is being tried already: wait until that has ended"
            )
        alone = replace(
            spec, preset=name, aliases=(), pinned=False, load_on_startup=False, replicas=1,
            queue_limit=None, kv_saves=False, unlisted=True, hidden=True, tags=(),
        )  # fmt: skip
        return _Trial(alone, known)

    def _stepped(self, decisions: Sequence[Decision]) -> None:
        if not self._of:
            return
        trials = {trial.spec.preset: trial for trial in self._of.values()}
        for decision in decisions:
            if isinstance(decision, Drain | AskExit | Kill) and decision.for_preset in trials:
                run = self._owner.runs.get(decision.instance)
                if run is not None:
                    trials[decision.for_preset].made_way[run.spec.preset] = None

    def _buried(self, run: InstanceRun) -> None:
        if run.spec.preset in self._leaving:
            self._owner.post(lambda: self._settle(run.spec.preset))

    def _settle(self, name: str) -> None:
        """Once nothing of it runs, what made way comes back."""
        if name not in self._leaving or self._owner.planner.instances_of(PresetName(name)):
            return
        for preset in self._leaving.pop(name).made_way:
            if preset in self._owner.offer.specs and not self._owner.is_running(preset):
                logger.info("%s made way for a trial, and is loaded again", preset)
                self._bring_back(preset)
