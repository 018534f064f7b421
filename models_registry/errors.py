"""What the registry refuses or cannot do. Each message says what to do about it."""

from __future__ import annotations


class OptionError(Exception):
    """An engine option that cannot be taken. `option` is its name as it was written."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(f"{option}: {message}")
        self.option = option
        self.message = message


class EngineMissing(Exception):
    """There is no llama-server that runs; the message names the remedy."""


class ModelsFolderMissing(Exception):
    """The models folder does not exist or cannot be listed. Nothing was changed for it."""


class NotRegistered(Exception):
    """A model named on the command line could not be registered."""
