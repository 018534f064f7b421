"""What of a child's log a person needs to see, and whether it says that memory was short. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MOST_LINES = 6
MOST_CHARACTERS = 800

# "0.00.006.676 E gguf_init_from_reader: ..." as llama-server writes it; older builds have no level.
_STAMP = re.compile(r"^\d+(?:\.\d+)+ (?P<level>[DIWE]) +")
_COMPONENT = re.compile(r"^(?:srv|cmn|slot|que|res|mtmd) +(?=\S)")
_LOOKS_WRONG = re.compile(
    r"\b(?:error|failed|failure|fatal|abort(?:ed|ing)?|assert(?:ion)?|invalid|cannot|unable|"
    r"not found|no such file|terminate called|what\(\)|traceback|exception|illegal)\b|GGML_ASSERT",
    re.IGNORECASE,
)

# Each is a wording of an engine or of its backend; the captured lines stand with the tests.
_OUT_OF_MEMORY = re.compile(
    r"out of memory|insufficient memory|OutOfDeviceMemory|OutOfHostMemory|OutOfMemory"
    r"|bad_alloc|cannot allocate memory|unable to allocate .{1,80}? buffer"
    r"|failed to allocate (?:\w+ )?buffer|failed to allocate compute (?:pp )?buffers"
    r"|failed to allocate \d[\d.]* (?:MB|MiB|bytes)|memory allocation of size \d+ failed",
    re.IGNORECASE,
)


def says_out_of_memory(lines: Iterable[str]) -> bool:
    """Whether one of the lines says that an allocation failed. Meant for a child that has died: a
    living one may have gone on with a smaller buffer."""
    return any(_OUT_OF_MEMORY.search(line) for line in lines)


def last_words(lines: Sequence[str]) -> str:
    """The lines that say why, in their order, joined by newlines: errors before all else, each
    once, the first of them (the cause) before the last. Empty when there was nothing."""
    spoken = [line for line in lines if line.strip()]
    wrong = list(dict.fromkeys(_bare(line) for line in spoken if _is_wrong(line)))
    if not wrong:
        wrong = [_bare(line) for line in spoken[-3:]]
    if len(wrong) > MOST_LINES:
        wrong = [*wrong[: MOST_LINES - 1], wrong[-1]]
    words = "\n".join(wrong)
    return words if len(words) <= MOST_CHARACTERS else words[: MOST_CHARACTERS - 1] + "…"


def _is_wrong(line: str) -> bool:
    stamp = _STAMP.match(line)
    if stamp:
        return stamp["level"] == "E"
    return bool(_LOOKS_WRONG.search(line) or _OUT_OF_MEMORY.search(line))


def _bare(line: str) -> str:
    """Without its time stamp, level and component, and of a length that can be read."""
    text = _COMPONENT.sub("", _STAMP.sub("", line.strip())).strip()
    return text if len(text) <= 300 else text[:299] + "…"
