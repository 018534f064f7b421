"""Which tensors a preset's options keep on the host beside other devices. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

EVERY_LAYER = 1 << 20

# As llama.cpp spells them out itself from its short options.
_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
_FEED_FORWARD = r"\.ffn_(up|down|gate)\."


def gpu_layers(options: Mapping[str, str]) -> int:
    """How many layers, counted from the last, go elsewhere; `auto` and `all` are all of them."""
    asked = options.get("n-gpu-layers", "auto")
    return int(asked) if asked.isdecimal() else EVERY_LAYER


def placed(options: Mapping[str, str]) -> list[tuple[str, bool]]:
    """Patterns of tensors' names, the first that matches counts, each with whether it places them
    on the host."""
    found: list[tuple[str, bool]] = []
    for each in options.get("override-tensor", "").split(","):
        pattern, equals, buffer = each.rpartition("=")
        if equals:
            found.append((pattern, buffer.startswith("CPU")))
    if options.get("cpu-moe") == "true":
        found.append((_EXPERTS, True))
    for key, parts in (("n-cpu-moe", _EXPERTS), ("n-cpu-ffn", _FEED_FORWARD)):
        if options.get(key, "0").isdecimal() and (count := int(options.get(key, "0"))):
            blocks = "|".join(str(number) for number in range(min(count, 4096)))
            found.append((rf"blk\.({blocks}){parts}", True))
    return found


_PLACES = frozenset(
    {
        "tensor-split", "override-tensor", "cpu-moe", "n-cpu-moe", "n-cpu-ffn", "main-gpu",
        "split-mode", "mmproj-device", "device-draft", "n-gpu-layers-draft",
        "override-tensor-draft", "cpu-moe-draft", "n-cpu-moe-draft",
    }
)  # fmt: skip


def is_open(options: Mapping[str, str]) -> bool:
    """Nothing says where it goes, beside which devices there are to choose from (`device`)."""
    asked = options.get("n-gpu-layers", "auto")
    return asked == "auto" and options.keys().isdisjoint(_PLACES)


def divided(count: int, devices: Sequence[str], options: Mapping[str, str]) -> dict[str, int]:
    """So many layers on devices: as `tensor-split` and `main-gpu` say, else in equal parts. Those
    without a layer are left out."""
    if not devices or not count:
        return {}
    if options.get("split-mode") == "none":
        main = options.get("main-gpu", "0")
        at = int(main) if main.isdecimal() and int(main) < len(devices) else 0
        return {devices[at]: count}
    shares = _shares(options.get("tensor-split", ""))[: len(devices)]
    if not any(shares):
        return dict(zip(devices, equal_parts(count, len(devices)), strict=False))
    ends = [round(count * end / sum(shares)) for end in accumulate(shares)]
    parts = [end - begin for begin, end in pairwise([0, *ends])]
    return {device: part for device, part in zip(devices, parts, strict=False) if part}


def _shares(text: str) -> list[float]:
    """Of `3,1` or `3/1`; what is no number counts nothing."""
    found = []
    for each in filter(None, text.replace("/", ",").split(",")):
        try:
            found.append(max(0.0, float(each)))
        except ValueError:
            found.append(0.0)
    return found


def equal_parts(count: int, parts: int) -> tuple[int, ...]:
    """The first ones get what is left over; fewer than `parts` when there is too little."""
    each, over = divmod(count, parts)
    return tuple(each + (part < over) for part in range(parts) if each or part < over)
