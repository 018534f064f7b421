"""A process that reads NVIDIA's GPUs when it is told to: a line `[pids of ours]` on stdin is
answered by a line of devices on stdout. Warnings go to stderr. Its library comes from
LD_LIBRARY_PATH."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys

from scheduler.runtime.devices.nvidia import Nvidia


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    # Nothing is waited for between two looks: each may open the library anew.
    gpus = Nvidia(os.environ.get("CUDA_VISIBLE_DEVICES"), retry_seconds=0.0)
    for line in sys.stdin:
        devices = gpus.read(frozenset(json.loads(line)))
        answer = {"knows": gpus.knows_gpus, "devices": [dataclasses.asdict(d) for d in devices]}
        print(json.dumps(answer), flush=True)
    gpus.close()


if __name__ == "__main__":
    main()
