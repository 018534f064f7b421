"""What a model's files say of themselves, without their tensors: a program of its own.

    python -I header_child.py '{"shards": ["/models/a.gguf"], "placed": []}'

prints `{"values": …, "lengths": …, "tensors": …, "mapped": …}`. Run apart, on the standard library
alone, because a file may be anything: memory and time end with the process, which also ends when
its stdin does.

The engine maps, of each file, all that lies between the first and the last tensor that the host
uses. `mapped[n]` is how many bytes that is with `n` layers on other devices, counted from the last
one, the output layer being the first of them; `placed` are patterns of tensors' names in their
order, each with whether it places them on the host.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

if __name__ == "__main__":  # python -I finds nothing beside it
    sys.path.append(os.fspath(Path(__file__).parents[2]))

from models_registry.gguf.contents import NotReadable, Tensor, contents_at

MEMORY_LIMIT = 512 << 20
CPU_SECONDS = 5
MOST_LAYERS = 1 << 10

_BLOCK = re.compile(r"blk\.(\d{1,6})\.")


# What the host maps ---------------------------------------------------------------------------

Placed = Sequence[tuple[str, bool]]


def mapped(files: Sequence[Sequence[Tensor]], placed: Placed = ()) -> list[int]:
    """Bytes with none, one, … and all layers, the output layer too, on other devices."""
    blocks = max((_block(tensor) for file in files for tensor in file), default=-1) + 1
    if blocks > MOST_LAYERS:
        raise NotReadable(f"its tensors name {blocks} layers")
    patterns = [(re.compile(pattern), on_host) for pattern, on_host in placed]
    sums = [0] * (blocks + 2)
    for file in files:
        for on_devices, span in enumerate(_spans(file, blocks, patterns)):
            sums[on_devices] += span
    return sums


def _spans(
    file: Iterable[Tensor], blocks: int, patterns: Sequence[tuple[re.Pattern[str], bool]]
) -> list[int]:
    """Of one file, by the number of layers on devices. -1: always the host's."""
    reach: dict[int, tuple[int, int]] = {}
    for tensor in file:
        layer = _layer(tensor, blocks)
        for pattern, on_host in patterns:
            if pattern.search(tensor.name):
                layer = -1 if on_host else blocks + 1
                break
        first, last = reach.get(layer, (tensor.begin, tensor.end))
        reach[layer] = (min(first, tensor.begin), max(last, tensor.end))
    spans = []
    first, last = sys.maxsize, 0
    for layer in range(-1, blocks + 1):
        begin, end = reach.get(layer, (sys.maxsize, 0))
        first, last = min(first, begin), max(last, end)
        spans.append(max(0, last - first))
    return spans[::-1]


def _layer(tensor: Tensor, blocks: int) -> int:
    """-1 for what stands before the layers, and is always the host's."""
    if tensor.name.startswith(("output", "cls")):
        return blocks
    return 0 if tensor.name.startswith("rope") else _block(tensor)


def _block(tensor: Tensor) -> int:
    found = _BLOCK.match(tensor.name)
    return int(found[1]) if found else -1


# The program ----------------------------------------------------------------------------------


def whole(paths: Sequence[str], placed: Placed) -> dict[str, object]:
    """Of all files of a model. Raises NotReadable and OSError."""
    shards = []
    for path in paths:
        try:
            shards.append(contents_at(path))
        except NotReadable as failure:
            raise NotReadable(f"the file {Path(path).name}: {failure}") from failure
    names = [tensor.name for shard in shards for tensor in shard.tensors]
    if len(set(names)) < len(names):
        raise NotReadable("two of its files have a tensor of the same name")
    tensors = [(*each, at) for at, shard in enumerate(shards) for each in shard.tensors]
    told = {"values": shards[0].values, "lengths": shards[0].lengths, "tensors": tensors}
    return {**told, "mapped": mapped([shard.tensors for shard in shards], placed)}


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(3)


def main(argv: list[str]) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    asked = json.loads(argv[0])
    threading.Thread(target=_end_with_stdin, daemon=True).start()  # whoever started us holds it
    try:
        found = whole(asked["shards"], asked["placed"])
    except OSError as failure:
        print(f"{failure.filename}: {failure.strerror}", file=sys.stderr)
        return 1
    except (NotReadable, MemoryError, re.error) as failure:
        print(str(failure) or "it takes more memory than any header", file=sys.stderr)
        return 1
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # the thread at stdin would hold an ordinary exit
