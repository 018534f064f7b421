"""What can be asked for: the registry at one revision. No I/O but one stat."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from models_registry.launch import LaunchSpec
from models_registry.names import Names
from scheduler.core.sharing import Sharing
from scheduler.core.sizes import FixedShape, OpenShape
from scheduler.core.values import PresetName, PresetSpec, Priority
from scheduler.protocol import NO_OWN_NAMES, OwnNames

from .figures import KnownShape
from .remote_run import is_remote

ShapeOf = Callable[[LaunchSpec], KnownShape | None]


@dataclass(frozen=True, slots=True)
class Offer:
    revision: int = 0
    specs: Mapping[str, LaunchSpec] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    naming: Names = field(default_factory=Names)
    default_stop_timeout_seconds: float = 10.0
    known: bool = False
    """Whether the registry has been read at all."""
    load_seconds: Mapping[str, float] = field(default_factory=dict)
    """By preset, how long its loads took, as far as that is known."""
    trials: Mapping[str, LaunchSpec] = field(default_factory=dict)
    """Those of `specs` that the registry does not have, and no name leads to."""

    @classmethod
    def of(
        cls,
        revision: int,
        specs: Sequence[LaunchSpec],
        stop_timeout_seconds: float,
        coming: Container[str] = (),
    ) -> Offer:
        """`coming` are the names of models that are being fetched."""
        aliases = {alias: spec.preset for spec in specs for alias in spec.aliases}
        return cls(
            revision=revision,
            specs={spec.preset: spec for spec in specs},
            aliases=aliases,
            naming=Names([spec.preset for spec in specs], aliases, coming),
            default_stop_timeout_seconds=stop_timeout_seconds,
            known=True,
        )

    def resolve(self, name: str) -> LaunchSpec | None:
        """By the preset's own name, else by an alias, as it is written."""
        return self.specs.get(self.naming.preset(name) or "")

    def meant(self, name: str, own: OwnNames = NO_OWN_NAMES) -> str:
        """The name, alias or pattern by which a request for `name` is resolved."""
        return self.naming.meant(name, exact=own.exact, wildcard=own.wildcard, default=own.default)

    def names(self) -> list[str]:
        return sorted(self.specs.keys() - self.trials.keys())

    def stop_timeout_seconds(self, spec: LaunchSpec) -> float:
        if spec.stop_timeout_seconds is None:
            return self.default_stop_timeout_seconds
        return spec.stop_timeout_seconds

    def trying(self, spec: LaunchSpec) -> Offer:
        """With this one as well, until `tried`."""
        added = {spec.preset: spec}
        return replace(self, specs={**self.specs, **added}, trials={**self.trials, **added})

    def tried(self, name: str) -> Offer:
        specs, trials = dict(self.specs), dict(self.trials)
        del specs[name], trials[name]
        return replace(self, specs=specs, trials=trials)

    def after(self, before: Offer) -> Offer:
        """This one, with what tells an instance stale as it was `before` for each preset that
        cannot be started now: a running instance is not taken down for options that nothing could
        be started with, as while the engine is being installed anew. How long loads took is known
        as it was, and what is tried is still tried."""
        kept = {
            name: spec if old is None or not spec.problem else _as_it_runs(spec, old)
            for name, spec in self.specs.items()
            for old in (before.specs.get(name),)
        }
        learned = {**before.load_seconds, **self.load_seconds}
        return replace(
            self,
            specs={**kept, **before.trials},
            trials=before.trials,
            load_seconds={name: learned[name] for name in self.specs if name in learned},
        )

    def renamed_since(self, before: Offer) -> tuple[tuple[PresetName, PresetName], ...]:
        """(old, new) for each preset that is gone while its name leads to another one."""
        return tuple(
            (PresetName(name), PresetName(self.aliases[name]))
            for name in sorted(before.specs)
            if name not in self.specs and name in self.aliases
        )

    def preset_specs(self, shape_of: ShapeOf) -> tuple[PresetSpec, ...]:
        """In the order of their names, with what is known of what each takes in memory."""
        return tuple(
            self.preset_spec(spec, shape_of(spec)) for _, spec in sorted(self.specs.items())
        )

    def preset_spec(self, spec: LaunchSpec, known: KnownShape | None) -> PresetSpec:
        """L5: what has a fingerprint, and no figures that are its own, is being measured."""
        shape = known.shape if known is not None else None
        return PresetSpec(
            name=PresetName(spec.preset),
            fingerprint=spec.fingerprint,
            parallel=spec.parallel,
            pinned=spec.pinned and not is_remote(spec),
            stop_timeout_seconds=self.stop_timeout_seconds(spec),
            priority=Priority[spec.priority.upper()],
            max_wait_seconds=spec.max_wait_seconds,
            min_residency_seconds=spec.min_residency_seconds,
            keep_alive_seconds=spec.keep_alive_seconds,
            queue_limit=spec.queue_limit,
            load_seconds=self.load_seconds.get(spec.preset),
            fixed=shape if isinstance(shape, FixedShape) else None,
            open=shape if isinstance(shape, OpenShape) else None,
            surplus=known.surplus if known is not None else (),
            estimated=known is not None and known.estimated,
            measuring=bool(spec.memory_fingerprint) and (known is None or known.pending),
            placement_now=spec.placement == "now",
            replicas=1 if is_remote(spec) else spec.replicas,
            sharing=Sharing(
                spec.group.name,
                one_at_a_time=spec.group.one_at_a_time,
                exclusive=spec.group.exclusive,
                persistent=spec.group.persistent,
            ),
            remote=is_remote(spec),
        )


def _as_it_runs(spec: LaunchSpec, old: LaunchSpec) -> LaunchSpec:
    return replace(spec, fingerprint=old.fingerprint, parallel=old.parallel)


def problem_of(spec: LaunchSpec) -> str:
    """Why the preset cannot be started at this moment; empty when nothing speaks against it."""
    if spec.problem:
        return spec.problem
    if spec.model_path and not os.path.exists(spec.model_path):  # noqa: PTH110 - on the hot path
        return (
            f"its model file {spec.model_path} is missing: restore it, or rescan the models folder"
        )
    return ""
