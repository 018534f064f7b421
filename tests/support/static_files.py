"""Every test's client has a handler of its own, which would look for all files that pages load."""

from __future__ import annotations

from typing import Any

from whitenoise.middleware import WhiteNoiseMiddleware


def look_for_them_once() -> None:
    """They are where they were for the whole run, and no test has other settings for them."""
    original = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, Any] = {}

    def add_files_from_finders(self: Any) -> None:
        if not found:
            original(self)
            found.update(self.files)
        self.files.update(found)

    WhiteNoiseMiddleware.add_files_from_finders = add_files_from_finders
