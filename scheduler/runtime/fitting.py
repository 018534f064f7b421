"""What would fit, as the control socket answers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from models_registry.launch import LaunchSpec
from models_registry.ports import (
    DeviceRoom,
    FitAnswer,
    FitLadders,
    FitStep,
    Fitting,
    PlacementKind,
    takes_nothing,
)
from scheduler.core.fitting import Fit
from scheduler.core.ladders import Step, Wishes
from scheduler.core.sizes import ON_HOST, DeviceId, Kind, OpenShape, Placement
from scheduler.core.values import PresetName
from scheduler.measuring.shapes import NoShape, shape_of
from scheduler.protocol import Fit as FitAsked
from scheduler.protocol import Ladder, Refused

from .figures import KnownShape
from .memory import by_device
from .refusals import no_place_told
from .remote_run import is_remote

if TYPE_CHECKING:
    from .owner import Owner

NOT_KNOWN = "what it takes in memory is not known yet: it is being measured"


def fit_answer(owner: Owner, asked: FitAsked, spec: LaunchSpec | None) -> FitAnswer:
    """Call it in the owner's turn. `spec` is the preset as it is saved; None for a new one, which
    must come with its shape. Raises Refused."""
    if spec is not None and is_remote(spec):
        return takes_nothing(spec.preset)
    known = _known(owner, asked, spec)
    if known is None:
        unknown = Fitting(problem=NOT_KNOWN)
        return FitAnswer(asked.preset, estimated=True, now=unknown, empty=unknown)
    base = spec or LaunchSpec(asked.preset, (), "", (), 1, "", placement=asked.placement)
    wanted = owner.offer.preset_spec(base, known)
    now, empty = owner.planner.fit(wanted, owner.clock())
    return FitAnswer(
        asked.preset,
        known.estimated,
        _told(now, wanted.name),
        _told(empty, wanted.name),
        None if asked.ladder is None else _ladders(owner, wanted.name, asked.ladder, now, empty),
    )


def _ladders(owner: Owner, preset: PresetName, asked: Ladder, now: Fit, empty: Fit) -> FitLadders:
    grant = now.grant if now.grant is not None and not now.waits else empty.grant
    shape = _open(asked)
    context = asked.context or (grant.context if grant is not None else 0)
    # The largest that is not larger: a context that was measured may be none of these.
    at = max((n for n, each in enumerate(shape.contexts) if each <= context), default=0)
    place = _placed(shape, asked.said) if asked.said is not None else None
    if place is None:
        place = grant.placement if grant is not None else ON_HOST
    layers = tuple(_placed(shape, each) for each in asked.layers)
    found = owner.planner.ladders(preset, Wishes(shape, place, layers, at), grant)
    return FitLadders(
        [_step(each) for each in found.contexts],
        [_step(each) for each in found.layers],
        [DeviceRoom(each.device, each.total, each.now, each.empty) for each in found.rooms],
    )


def _open(asked: Ladder) -> OpenShape:
    try:
        shape = shape_of(asked.shape)
    except NoShape as failure:
        raise Refused("invalid_request", f"the ladder's shape is none: {failure}") from failure
    if not isinstance(shape, OpenShape):
        raise Refused("invalid_request", "the ladder's shape is not open")
    return shape


def _placed(shape: OpenShape, said: Mapping[str, int]) -> Placement:
    """No more layers than there are, whatever is said."""
    layers, left = [], len(shape.layers)
    for device, count in said.items():
        layers.append((DeviceId(device), min(count, left)))
        left -= layers[-1][1]
    layers = [each for each in layers if each[1]]
    if not layers:
        return ON_HOST
    if left:
        return Placement(Kind.PARTIAL, tuple(layers))
    return Placement(Kind.WHOLE if len(layers) == 1 else Kind.SPREAD, tuple(layers))


def _step(step: Step) -> FitStep:
    return FitStep(step.at, by_device(step.need), step.now, step.empty)


def _known(owner: Owner, asked: FitAsked, spec: LaunchSpec | None) -> KnownShape | None:
    if asked.shape is None:
        return None if spec is None else owner.figures.shape_of(spec)
    try:
        return KnownShape(shape_of(asked.shape), estimated=asked.estimated)
    except NoShape as failure:
        raise Refused("invalid_request", f"the shape is none: {failure}") from failure


def _told(fit: Fit, preset: PresetName) -> Fitting:
    if fit.no_place is not None:
        return Fitting(problem=no_place_told(fit.no_place, preset))
    if fit.grant is None:
        return Fitting(problem=NOT_KNOWN)
    placement = fit.grant.placement
    return Fitting(
        kind=cast(PlacementKind, placement.kind.value),
        layers={str(device): count for device, count in placement.layers},
        context=fit.grant.context,
        bytes=by_device(fit.grant.need),
        evicts=[str(name) for name in fit.evicts],
        waits=fit.waits,
    )
