"""A preset's scheduling policy: what counts once every layer was heard, and what counts where all
are silent.

Times in seconds. Nothing here reaches the child's command line: an edit counts at once, also for
what runs already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from models_registry.options.command_line import Layer
from models_registry.options.policy_keys import (
    LEAST_CONTEXT,
    LEAST_TIME_OUT,
    LONGEST_IDLE,
    LONGEST_WAIT,
    MOST_CONTEXT,
    MOST_REPLICAS,
    MOST_WAITERS,
    NEVER,
    POLICY_KEYS,
    PolicyWord,
    policy_value,
    tag_words,
)
from models_registry.options.preset_options import policy_lines

if TYPE_CHECKING:
    from models_registry.models import GlobalPreset, Preset

__all__ = [
    "GATEWAYS_OWN",
    "LEAST_CONTEXT",
    "LEAST_TIME_OUT",
    "LONGEST_IDLE",
    "LONGEST_WAIT",
    "MOST_CONTEXT",
    "MOST_REPLICAS",
    "MOST_WAITERS",
    "NEVER",
    "Policy",
    "Said",
    "SaidBy",
    "column_policy",
    "effective_policy",
    "gateways_own",
    "heard",
    "min_residency_seconds",
    "policy_errors",
    "said_by_base",
    "said_by_global",
    "said_by_preset",
    "validate_keep_alive",
]

GATEWAYS_OWN = {
    "stop_timeout": "CORRAL_STOP_TIMEOUT",
    "max_wait": "CORRAL_MAX_WAIT",
    "min_residency": "CORRAL_MIN_RESIDENCY",
    "keep_alive": "CORRAL_MODEL_KEEP_ALIVE",
    "queue_limit": "CORRAL_QUEUE_LIMIT_PER_MODEL",
    "context_cap": "CORRAL_CONTEXT_PER_SLOT",
    "connect_timeout": "CORRAL_CONNECT_TIMEOUT",
    "first_byte_timeout": "CORRAL_FIRST_BYTE_TIMEOUT",
    "idle_timeout": "CORRAL_BETWEEN_TOKENS_TIMEOUT",
    "answer_timeout": "CORRAL_ANSWER_TIMEOUT",
}
"""Field name to the setting that counts while it is unset."""


@dataclass(frozen=True, slots=True)
class SaidBy:
    """Who set a value of the policy."""

    layer: Layer
    origin: str = ""

    @property
    def where(self) -> str:
        return self.origin or self.layer.label


@dataclass(frozen=True, slots=True)
class Policy:
    """What counts for a preset; None is the gateway's own. `said_by` has the fields that a layer
    set; the others are at their defaults."""

    load_on_startup: bool = False
    stop_timeout: float | None = None
    priority: str = "normal"
    max_wait: float | None = None
    queue_limit: int | None = None
    min_residency: float | None = None
    keep_alive: float | None = None
    connect_timeout: float | None = None
    first_byte_timeout: float | None = None
    idle_timeout: float | None = None
    answer_timeout: float | None = None
    readiness_probe: bool = False
    placement: str = "best"
    context_cap: int | None = None
    replicas: int = 1
    pinned: bool = False
    tags: tuple[str, ...] = ()
    unlisted: bool = False
    kv_saves: bool = True
    dedup_cache_models: bool = False
    said_by: Mapping[str, SaidBy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """What one layer says, by field of Policy."""

    by: SaidBy
    values: Mapping[str, PolicyWord]


def effective_policy(
    preset: Preset, bases: Sequence[Preset] = (), global_preset: GlobalPreset | None = None
) -> Policy:
    """Of every value, what the highest layer says that says anything. `bases` come nearest first.
    Raises OptionError for a stored value that means nothing."""
    inherited = [said for base in reversed(bases) for said in said_by_base(base)]
    return heard((*said_by_global(global_preset), *inherited, *said_by_preset(preset)))


def heard(layers: Iterable[Said]) -> Policy:
    """The last one that says something of a field counts."""
    values: dict[str, Any] = {}
    said_by: dict[str, SaidBy] = {}
    for said in layers:
        values.update(said.values)
        said_by.update(dict.fromkeys(said.values, said.by))
    return Policy(**values, said_by=said_by)


def column_policy(preset: Preset) -> Policy:
    """What the preset's own fields say, and nothing else: for where the layers cannot be read."""
    return Policy(**_columns(preset))  # type: ignore[arg-type]  # each column has its field's type


def said_by_global(row: GlobalPreset | None) -> tuple[Said, ...]:
    if row is None:
        return ()
    filed = SaidBy(Layer.GLOBAL, in_presets_file(Layer.GLOBAL.label))
    lines = policy_lines(row.options, POLICY_KEYS.keys())
    return Said(filed, _words(row.file_options)), Said(SaidBy(Layer.GLOBAL), _words(lines))


def said_by_base(base: Preset) -> tuple[Said, Said]:
    origin = base_origin(base)
    return (
        Said(SaidBy(Layer.BASE, in_presets_file(origin)), _inherited(_words(base.file_options))),
        Said(SaidBy(Layer.BASE, origin), _inherited(_patch(base))),
    )


def said_by_preset(preset: Preset) -> tuple[Said, Said]:
    return (
        Said(SaidBy(Layer.PRESET_FILE), _words(preset.file_options)),
        Said(SaidBy(Layer.PRESET), _patch(preset)),
    )


def base_origin(base: Preset) -> str:
    return _("base preset %(name)s") % {"name": base.name}


def in_presets_file(origin: str) -> str:
    return _("%(origin)s, presets file") % {"origin": origin}


def _patch(preset: Preset) -> dict[str, PolicyWord]:
    return _columns(preset) | _words(policy_lines(preset.extra_options))


def _columns(preset: Preset) -> dict[str, PolicyWord]:
    """What the columns say; one at its default says nothing."""
    said: dict[str, PolicyWord] = {}
    for name, unset in _COLUMNS:
        value = getattr(preset, name)
        if value is not None and value != unset:
            said[name] = tag_words(value) if name == "tags" else value
    return said


_COLUMNS = tuple((key.field, key.unset) for key in POLICY_KEYS.values() if key.column)


def _words(options: Mapping[str, str]) -> dict[str, PolicyWord]:
    """By field; what is no policy is left out."""
    return {
        POLICY_KEYS[key].field: policy_value(key, text)
        for key, text in options.items()
        if key in POLICY_KEYS
    }


_OWN_FIELDS = frozenset(key.field for key in POLICY_KEYS.values() if not key.inherited)


def _inherited(said: dict[str, PolicyWord]) -> dict[str, PolicyWord]:
    return {name: value for name, value in said.items() if name not in _OWN_FIELDS}


# What fits together -------------------------------------------------------------------------


def validate_keep_alive(value: float) -> None:
    if value != NEVER and not 0 <= value <= LONGEST_IDLE:
        raise ValidationError(
            _("Write seconds, from 0 to %(LONGEST_IDLE)s, or -1: never ended for being idle.")
            % {"LONGEST_IDLE": f"{LONGEST_IDLE:.0f}"}
        )


def gateways_own(field: str) -> str:
    """What counts for all presets that leave `field` unset, for people."""
    value = getattr(settings, GATEWAYS_OWN[field])
    if field == "keep_alive" and value is None:
        return _("until its room is needed")
    if field == "queue_limit" and value == 0:
        return _("no limit of its own")
    return _plain(value)


def _plain(number: float) -> str:
    """30, 0.5, 31536000: as people write it."""
    return f"{number:.12g}"


def policy_errors(policy: Policy) -> dict[str, str]:
    """By field, what is valid by itself and not together."""
    residency, wait = _residency_and_wait(policy)
    if residency <= wait or wait < 0:  # a time below 0 is told by the field itself
        return {}
    stays, waits = _plain(residency), _plain(wait)
    if policy.min_residency is None:
        return {
            "max_wait": _(
                "%(waits)s is less than the gateway's min residency, %(stays)s "
                "(CORRAL_MIN_RESIDENCY): raise it, or set min residency to %(waits)s or less here."
            )
            % {"waits": waits, "stays": stays}
        }
    if policy.max_wait is None:
        return {
            "min_residency": _(
                "%(stays)s is more than the gateway's max wait, %(waits)s (CORRAL_MAX_WAIT): "
                "lower it, or set max wait to %(stays)s or more here."
            )
            % {"stays": stays, "waits": waits}
        }
    return {
        "min_residency": _(
            "%(stays)s is more than max wait, %(waits)s: lower it, or raise max wait."
        )
        % {"stays": stays, "waits": waits}
    }


def min_residency_seconds(policy: Policy) -> float | None:
    """As it counts; None: the gateway's own. The gateway's max wait may have been lowered after the
    preset was saved: a min residency never counts beyond it."""
    stays, waits = _residency_and_wait(policy)
    return policy.min_residency if stays <= waits else waits


def _residency_and_wait(policy: Policy) -> tuple[float, float]:
    stays, waits = policy.min_residency, policy.max_wait
    return (
        settings.CORRAL_MIN_RESIDENCY if stays is None else stays,
        settings.CORRAL_MAX_WAIT if waits is None else waits,
    )
