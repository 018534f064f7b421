"""CUDA_VISIBLE_DEVICES: which GPUs a child sees, and in which order it numbers them."""

from __future__ import annotations

from collections.abc import Sequence


class NotUnderstood(ValueError):
    """It names something that cannot be told from the outside; the message says what to do."""


def visible(setting: str | None, uuids: Sequence[str]) -> tuple[str, ...]:
    """The UUIDs that CUDA0, CUDA1 … are, out of all in the order of their PCI addresses.

    As CUDA reads it: unset shows all; the list ends at the first word that names no GPU (so `-1`
    and the empty list show none); a GPU that is named twice makes the whole list invalid. Raises
    NotUnderstood for partitions of a GPU (MIG).
    """
    if setting is None:
        return tuple(uuids)
    chosen: list[str] = []
    for word in setting.split(","):
        uuid = _named(word.strip(), uuids)
        if not uuid:
            break
        chosen.append(uuid)
    return tuple(chosen) if len(set(chosen)) == len(chosen) else ()


def _named(word: str, uuids: Sequence[str]) -> str:
    if word.upper().startswith("MIG-"):
        raise NotUnderstood(
            f"CUDA_VISIBLE_DEVICES names the partition {word} of a GPU, whose figures NVML does not"
            " give by itself: the engine is asked for its devices instead. Name whole GPUs to have"
            " their processes and temperatures shown."
        )
    if word.isdecimal():
        return uuids[int(word)] if int(word) < len(uuids) else ""
    if not word.startswith("GPU-"):
        return ""
    matching = [uuid for uuid in uuids if uuid.startswith(word)]
    return matching[0] if len(matching) == 1 else ""
