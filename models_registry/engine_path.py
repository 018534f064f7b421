"""Where the llama-server is that runs the models."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from django.conf import settings

from models_registry.errors import EngineMissing as EngineMissing


def llama_server() -> Path:
    """The program, chosen by CORRAL_LLAMA_SERVER: a path, the word PATH, or empty for the one
    that the llama-cpp-python build installed. Raises EngineMissing with the remedy."""
    chosen = settings.CORRAL_LLAMA_SERVER
    if not chosen:
        return _in_the_wheel()
    if chosen == "PATH":
        found = shutil.which("llama-server")
        if found is None:
            raise EngineMissing(
                "CORRAL_LLAMA_SERVER=PATH, but there is no llama-server on PATH: "
                "install llama.cpp, or unset CORRAL_LLAMA_SERVER to use Corral's own"
            )
        return Path(found)
    program = Path(chosen).expanduser()
    if not program.is_file() or not os.access(program, os.X_OK):
        raise EngineMissing(
            f"CORRAL_LLAMA_SERVER={chosen} is not a program: "
            "give the path of a llama-server, the word PATH, or unset it"
        )
    return program.absolute()


def _in_the_wheel() -> Path:
    """`bin/llama-server` beside the package, which is not imported: that would load the library
    into this process."""
    package = importlib.util.find_spec("llama_cpp")
    if package is None or package.origin is None:
        raise EngineMissing(
            "the engine is not installed: run `make setup`, or set CORRAL_LLAMA_SERVER "
            "to a llama-server (or to PATH)"
        )
    program = Path(package.origin).parent.parent / "bin" / "llama-server"
    if not os.access(program, os.X_OK):
        raise EngineMissing(
            "the installed llama-cpp-python was built without llama-server: run `make setup` "
            "to build it with, or set CORRAL_LLAMA_SERVER to a llama-server (or to PATH)"
        )
    return program
