"""The message by which a preset is tried that the registry does not have."""

from __future__ import annotations

from typing import Any

from .base import OperationBase, RequestText

TRIAL = "~try"
"""After the name of the preset that is tried. No preset can have such a name."""


class Try(OperationBase, tag="try", frozen=True):
    """Load a preset that is being edited, and take a lease on it: granted like an acquire, of a
    preset that only this request knows. With the lease's end, or that of the connection, it is
    gone, its instance ends, and what had to make way for it is loaded again if it still fits.
    `spec` is a LaunchSpec (models_registry/launch.py), `shape` what it takes, as in `fit`."""

    spec: dict[str, Any]
    shape: dict[str, Any]
    estimated: bool = False
    request: RequestText = ""
