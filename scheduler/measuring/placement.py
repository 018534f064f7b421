"""Which tensors a preset's options keep on the host beside other devices. Pure."""

from __future__ import annotations

from collections.abc import Mapping

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


def equal_parts(count: int, parts: int) -> tuple[int, ...]:
    """The first ones get what is left over; fewer than `parts` when there is too little."""
    each, over = divmod(count, parts)
    return tuple(each + (part < over) for part in range(parts) if each or part < over)
