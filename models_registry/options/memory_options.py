"""Which of a preset's options change what it takes in memory. Pure.

Only those count as irrelevant of which that is known. What a later engine adds is relevant until
somebody has looked at it: a measurement too many costs a second, one too few a wrong figure.
"""

from __future__ import annotations

from collections.abc import Iterable

from models_registry.options.command_line import EffectiveOption

_THREADS = {
    "threads", "threads-batch", "threads-http", "cpu-mask", "cpu-range", "cpu-strict", "prio",
    "poll", "cpu-mask-batch", "cpu-range-batch", "cpu-strict-batch", "prio-batch", "poll-batch",
    "threads-draft", "threads-batch-draft", "cpu-mask-draft", "cpu-range-draft",
    "cpu-strict-draft", "prio-draft", "poll-draft", "cpu-mask-batch-draft",
    "cpu-strict-batch-draft", "prio-batch-draft", "poll-batch-draft",
}  # fmt: skip
_SAMPLING = {
    "samplers", "seed", "sampling-seq", "ignore-eos", "temperature", "top-k", "top-p", "min-p",
    "top-n-sigma", "xtc-probability", "xtc-threshold", "typical-p", "repeat-last-n",
    "repeat-penalty", "presence-penalty", "frequency-penalty", "dry-multiplier", "dry-base",
    "dry-allowed-length", "dry-penalty-last-n", "dry-sequence-breaker", "adaptive-target",
    "adaptive-decay", "dynatemp-range", "dynatemp-exp", "mirostat", "mirostat-lr", "mirostat-ent",
    "logit-bias", "grammar", "json-schema", "n-predict", "keep", "reverse-prompt",
}  # fmt: skip
_TEXT = {
    "chat-template", "chat-template-kwargs", "jinja", "reasoning-format", "reasoning",
    "reasoning-effort", "reasoning-budget", "reasoning-budget-message", "reasoning-preserve",
    "skip-chat-parsing", "prefill-assistant", "escape", "special", "spm-infill", "tags",
    "embd-normalize",
}  # fmt: skip
_SERVING = {
    "timeout", "sse-ping-interval", "metrics", "perf", "warmup", "check-tensors", "cache-prompt",
    "cache-reuse", "context-shift", "slot-prompt-similarity", "sleep-idle-seconds", "log-verbose",
    "log-verbosity", "log-prefix", "log-timestamps",
}  # fmt: skip

IRRELEVANT = frozenset(_THREADS | _SAMPLING | _TEXT | _SERVING)
"""Canonical keys."""


def memory_options(options: Iterable[EffectiveOption]) -> dict[str, str]:
    """Those that count, by canonical key, sorted."""
    counted = (option for option in options if option.key not in IRRELEVANT)
    return {option.key: option.value for option in sorted(counted, key=lambda each: each.key)}
