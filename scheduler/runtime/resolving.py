"""Which preset a name means, to who may use some of them only.

What somebody may not use is not there for them: neither by a name of its own nor by an alias, a
pattern or the default, and no refusal names it.
"""

from __future__ import annotations

from models_registry.allowing import Allowed, may_use
from models_registry.launch import LaunchSpec
from scheduler.core.values import PresetName
from scheduler.protocol import OwnNames, Refused

from .offer import problem_of
from .owner import Owner
from .refusals import (
    model_missing,
    model_not_found,
    model_not_loaded,
    preset_invalid,
    registry_unread,
)
from .remote_run import is_remote


class Resolving:
    """By the registry as the owner has it at that moment. All raise Refused."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def asked(
        self, name: str, own: OwnNames, *, allowed: Allowed = (), autoload: bool = True
    ) -> PresetName:
        """The canonical name, for a request. Refused as well is what the core need not be asked:
        it would make room for something that cannot be started."""
        meant = self._owner.offer.meant(name, own)
        spec = self._owner.offer.resolve(meant)
        if spec is None or not _is_there(spec, allowed):
            theirs = meant in (own.exact, own.wildcard, own.default)
            raise self.not_offered(name, meant if spec is None or theirs else "", allowed)
        return self._startable(spec, autoload=autoload)

    def named(self, name: str, allowed: Allowed = ()) -> LaunchSpec:
        """By its name or an alias, for people: no pattern and no default counts."""
        spec = self._owner.offer.resolve(name)
        if spec is None or not _is_there(spec, allowed):
            raise self.not_offered(name, allowed=allowed)
        return spec

    def to_load(self, name: str, allowed: Allowed = ()) -> PresetName:
        return self._startable(self.named(name, allowed), autoload=True)

    def not_offered(self, name: str, meant: str = "", allowed: Allowed = ()) -> Refused:
        """`meant` is where the name leads: to nobody, or by an alias of their own to what is not
        there for them."""
        if not self._owner.offer.known:
            return registry_unread()
        if not name and not meant:
            return model_missing()
        return model_not_found(name, self._written(allowed), leads_to=meant or name)

    def _written(self, allowed: Allowed) -> list[str]:
        written = self._owner.offer.naming.written()
        if not allowed:
            return written
        there = {name for name, spec in self._owner.offer.specs.items() if _is_there(spec, allowed)}
        preset = self._owner.offer.naming.preset
        return [name for name in written if preset(name) in there]

    def _startable(self, spec: LaunchSpec, *, autoload: bool) -> PresetName:
        preset = PresetName(spec.preset)
        if self._owner.is_running(preset):
            return preset
        if problem := problem_of(spec):
            raise preset_invalid(spec.preset, problem)
        if not autoload and not is_remote(spec):
            raise model_not_loaded(spec.preset)
        return preset


def _is_there(spec: LaunchSpec, allowed: Allowed) -> bool:
    return not allowed or may_use((spec.preset, *spec.aliases), allowed)
