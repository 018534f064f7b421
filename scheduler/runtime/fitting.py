"""What would fit, as the control socket answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from models_registry.launch import LaunchSpec
from models_registry.ports import FitAnswer, Fitting, PlacementKind, takes_nothing
from scheduler.core.fitting import Fit
from scheduler.core.values import PresetName
from scheduler.measuring.shapes import NoShape, shape_of
from scheduler.protocol import Fit as FitAsked
from scheduler.protocol import Refused

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
        asked.preset, known.estimated, _told(now, wanted.name), _told(empty, wanted.name)
    )


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
