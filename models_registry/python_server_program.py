"""llama-cpp-python's server, as a program: `python -m llama_cpp.server`, which takes request ids of
any form. By itself it answers 400 to one that is no UUID; clients' and ours are not."""

from __future__ import annotations

import importlib
import runpy
from typing import Any


def main() -> None:
    plugin: Any = importlib.import_module("starlette_context.plugins").RequestIdPlugin
    plugin.validate_uuid = lambda plugin, value: None
    runpy.run_module("llama_cpp.server", run_name="__main__")


if __name__ == "__main__":
    main()
