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


class ImportRefused(Exception):
    """A file of another program's cannot be read. The message says why and, where that is known, in
    which line; nothing was changed for it."""


class ManagementRefused(Exception):
    """The management API will not do it. `code` is one of scheduler.protocol.ERRORS; `param` names
    the field at fault, where there is one."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
