"""Ollama's parameters as llama-server's options: those that mean exactly the same. Pure."""

from __future__ import annotations

from collections.abc import Mapping

OPTIONS = {
    "temperature": "temperature",
    "top_k": "top-k",
    "top_p": "top-p",
    "min_p": "min-p",
    "typical_p": "typical-p",
    "repeat_last_n": "repeat-last-n",
    "repeat_penalty": "repeat-penalty",
    "presence_penalty": "presence-penalty",
    "frequency_penalty": "frequency-penalty",
    "mirostat": "mirostat",
    "mirostat_eta": "mirostat-lr",
    "mirostat_tau": "mirostat-ent",
    "seed": "seed",
    "num_predict": "n-predict",
    "num_ctx": "ctx-size",
    "num_batch": "batch-size",
    "num_gpu": "n-gpu-layers",
    "num_thread": "threads",
}
"""By Ollama's name; the keys are the engine's own."""

_LEAST = {"num_predict": -1, "seed": -1}
"""Below 0 the others mean something else there than here."""

_WHOLE = frozenset(OPTIONS) - {
    "temperature", "top_p", "min_p", "typical_p", "repeat_penalty", "presence_penalty",
    "frequency_penalty", "mirostat_eta", "mirostat_tau",
}  # fmt: skip
_ANY_SIGN = frozenset({"presence_penalty", "frequency_penalty"})
_POSITIVE = {"num_ctx": 2, "num_batch": 2, "num_thread": 1}
"""With a context or a batch of one token the engine does not start."""
_MOST = 2**31 - 1


def options_of(params: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """(engine options by key, a sentence for each parameter that cannot be taken)."""
    options: dict[str, str] = {}
    notes: list[str] = []
    for name, value in sorted(params.items()):
        if name == "stop":
            notes.append("its stop words are not taken: clients send `stop`")
        elif name not in OPTIONS:
            notes.append(
                f"its parameter {name} is not taken: llama-server has none that is like it"
            )
        elif not _is_taken(name, value):
            notes.append(
                f"its parameter {name} is not taken: {value!r} means nothing to the engine"
            )
        else:
            options[OPTIONS[name]] = str(value)
    return options, notes


def _is_taken(name: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if name in _WHOLE and not isinstance(value, int):
        return False
    if name in _ANY_SIGN:
        return abs(value) <= _MOST
    least = _POSITIVE.get(name, _LEAST.get(name, 0))
    return least <= value <= _MOST
