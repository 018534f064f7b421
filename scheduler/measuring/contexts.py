"""Which contexts a preset may be granted, in tokens over all its slots. Pure."""

from __future__ import annotations

from collections.abc import Mapping

SMALLEST_PER_SLOT = 4096
"""What llama-server itself goes down to when it fits a context (`--fit-ctx`)."""
LADDER_FROM = 512
"""Tokens of a slot; fewer are of no use."""
LADDER_STEPS = 20
CELLS = 256
"""The engine rounds each slot's context up to this."""


def contexts_of(options: Mapping[str, str], *, per_slot: int, trained: int) -> tuple[int, ...]:
    """The smallest first. One alone where the options say it: `ctx-size` 0 is then as many tokens
    as the model knows. Else from `fit-ctx` doubling to `per_slot`, for each slot.

    `trained` is how many tokens the model was trained with. No slot gets more, nor do all slots
    together where they share one cache: the engine takes it for a mistake. Raises ValueError for
    options that are no numbers.
    """
    slots = max(1, int(options.get("parallel", "1")))
    unified = options.get("kv-unified") == "true"
    caches = 1 if unified else slots
    known = _whole_cells(trained)
    given = _given(options, slots)
    if given is not None:
        return (given or known * caches,)
    largest = min(_whole_cells(per_slot) * (slots if unified else 1), known)
    smallest = min(_whole_cells(int(options.get("fit-ctx", SMALLEST_PER_SLOT))), largest)
    points = [smallest]
    while points[-1] * 2 < largest:
        points.append(points[-1] * 2)
    if largest > points[-1]:
        points.append(largest)
    return tuple(point * caches for point in points)


def ladder_of_contexts(options: Mapping[str, str], *, trained: int) -> tuple[int, ...]:
    """Those that people may choose among, the smallest first, the one that the options say with
    them: each slot's doubling up to what the model was trained with. Raises ValueError."""
    slots = max(1, int(options.get("parallel", "1")))
    caches = 1 if options.get("kv-unified") == "true" else slots
    known = _whole_cells(trained)
    points = [known]
    while points[-1] > LADDER_FROM and len(points) < LADDER_STEPS:
        points.append(_whole_cells(points[-1] // 2))
    found = {point * caches for point in points}
    if given := _given(options, slots):
        found.add(given)
    return tuple(sorted(found))


def _given(options: Mapping[str, str], slots: int) -> int | None:
    if "ctx-size" in options:
        return max(0, int(options["ctx-size"]))
    if "kv-unified-per-slot" in options:
        return max(0, int(options["kv-unified-per-slot"])) * slots
    return None


def _whole_cells(tokens: int) -> int:
    return max(tokens // CELLS, 1) * CELLS
