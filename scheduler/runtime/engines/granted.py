"""A grant as llama-server's arguments: what the ledger granted is what the child allocates. Pure.

They stand behind the preset's own, so that these hold. Fitting is off with any grant: it would look
at the memory there is at that moment, and grow the context or move layers.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.sizes import Grant, Kind, Placement

MOST_DEVICES = 15
"""So many parts llama.cpp takes in a split."""

_ONE_DEVICE = frozenset({"none"})


def granted_argv(options: Mapping[str, str], grant: Grant) -> tuple[str, ...]:
    """Nothing for a grant that says nothing: the preset is then started as its options stand."""
    if not grant.context and grant.placement.kind is Kind.FIXED:
        return ()
    context = ("--ctx-size", str(grant.context)) if grant.context else ()
    return (*context, *placed_argv(options, grant.placement), "--fit", "off")


def placed_argv(options: Mapping[str, str], placement: Placement) -> tuple[str, ...]:
    """Each device gets one run of layers, in the order of the devices, the output layer last."""
    if placement.kind is Kind.FIXED:
        return _in_equal_parts(options)
    if placement.kind is Kind.HOST:
        return ("--device", "none", "--n-gpu-layers", "0")
    devices = [device for device, _ in placement.layers]
    counts = [str(count) for _, count in placement.layers]
    layers = str(sum(count for _, count in placement.layers))
    argv = ["--device", ",".join(devices), "--n-gpu-layers", layers]
    if len(devices) > 1:
        argv += ["--split-mode", "layer", "--tensor-split", ",".join(counts)]
    if "model-draft" in options:
        argv += ["--spec-draft-device", devices[0]]
    return tuple(argv)


def _in_equal_parts(options: Mapping[str, str]) -> tuple[str, ...]:
    """Without a split of its own a preset on several devices would be split by what is free at that
    moment, and not as it was measured. For fewer devices than parts the first ones count."""
    if "tensor-split" in options or options.get("split-mode") in _ONE_DEVICE:
        return ()
    if options.get("device", "") and "," not in options["device"]:
        return ()
    return ("--tensor-split", ",".join(["1"] * MOST_DEVICES))
