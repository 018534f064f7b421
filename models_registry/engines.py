"""The kinds of engine that a preset may run, and what each needs to be told. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from models_registry import python_server
from models_registry.errors import OptionError
from models_registry.remote_addresses import is_shortened, why_not

MIB = 1 << 20
LONGEST_COMMAND = 16 << 10
"""Characters of a command line."""
MOST_DECLARED = 1 << 24
"""MiB on one device."""
HEALTH = "/health"
"""Where a server of one's own is asked whether it can answer, unless its preset says otherwise."""


class EngineKind(StrEnum):
    LLAMA_SERVER = "llama_server"
    LLAMA_CPP_PYTHON = "llama_cpp_python"
    COMMAND = "command"
    UPSTREAM = "upstream"


DECLARED = frozenset({EngineKind.LLAMA_CPP_PYTHON, EngineKind.COMMAND})
"""Nobody can tell beforehand what they take: their presets say it, until it has been learned."""

DEFAULT_PARALLEL: Mapping[str, int] = {
    EngineKind.LLAMA_CPP_PYTHON: 1,  # it computes one answer at a time
    EngineKind.COMMAND: 4,
    EngineKind.UPSTREAM: 16,
}
"""Requests at once where a preset says nothing; of llama_server see its own options."""


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """What a preset's engine is told. `options` are those of llama-cpp-python's server, by
    llama-server's names; `key` is the reference of a kept secret (models_registry.kept_secrets),
    never the secret; `declared` are bytes by device."""

    kind: str = EngineKind.LLAMA_SERVER
    command_line: str = ""
    health_path: str = HEALTH
    options: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    model: str = ""
    key: str = ""
    declared: Mapping[str, int] = field(default_factory=dict)

    @property
    def told(self) -> tuple[str, ...]:
        """All that changes what would be started."""
        options = (f"{key}={value}" for key, value in sorted(self.options.items()))
        own = (self.kind, self.command_line, self.health_path, self.url, self.model, self.key)
        return (*own, *options)


LLAMA_SERVER = EngineSetup()

_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_LISTENS = ("port", "socket")
PLACEHOLDERS = (*_LISTENS, "model", "preset")


def command_words(text: str) -> tuple[str, ...]:
    """The words of a command line, by a shell's rules of quoting; no shell ever reads it. Raises
    OptionError for what could not be started."""
    if len(text) > LONGEST_COMMAND:
        raise OptionError(
            "command line",
            _("it has more than %(LONGEST_COMMAND)s characters")
            % {"LONGEST_COMMAND": LONGEST_COMMAND},
        )
    if "\0" in text:
        raise OptionError("command line", _("it holds a NUL character"))
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise OptionError(
            "command line", (_("%(error)s: close the quotation") % {"error": error}).lower()
        ) from error
    if not words:
        raise OptionError("command line", _("write the program and its arguments"))
    if any("${" in _PLACEHOLDER.sub("", word) for word in words):
        raise OptionError("command line", _("a ${ in it is never closed: write ${port}, say"))
    named = {name for word in words for name in _PLACEHOLDER.findall(word)}
    if unknown := sorted(named.difference(PLACEHOLDERS)):
        known = ", ".join(f"${{{name}}}" for name in PLACEHOLDERS)
        raise OptionError(
            "command line",
            _("${%(value)s} is unknown: there are %(known)s")
            % {"value": unknown[0], "known": known},
        )
    if len(named.intersection(_LISTENS)) != 1:
        raise OptionError(
            "command line",
            _(
                "it must be told where to listen: write ${port} for a port of 127.0.0.1, or "
                "${socket} "
                "for the path of a Unix socket, and not both"
            ),
        )
    if _PLACEHOLDER.search(words[0]):
        raise OptionError("command line", _("its first word is the program's own name"))
    return words


def names(text: str, placeholder: str) -> bool:
    return f"${{{placeholder}}}" in text


def filled(text: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """The words with what stands for each placeholder. What is filled in is never split. Raises
    OptionError."""
    return tuple(
        _PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in command_words(text)
    )


def run_words(setup: EngineSetup, *, model: str, preset: str) -> tuple[str, ...]:
    """What is started, but for the place where it listens, which stands as ${port} or ${socket}; of
    a remote server nothing. Raises OptionError."""
    if setup.kind == EngineKind.LLAMA_CPP_PYTHON:
        return python_server.words(setup.options, model=model, preset=preset)
    if setup.kind != EngineKind.COMMAND:
        return ()
    place = {name: f"${{{name}}}" for name in _LISTENS}
    return filled(setup.command_line, {**place, "model": model, "preset": preset})


def path_problem(path: str) -> str:
    """Why `path` cannot be asked for over HTTP; empty when it can."""
    if not path.startswith("/") or not path.isascii() or not path.isprintable() or " " in path:
        return _("Write a path from / on, in plain characters: /health, /v1/models …")
    return ""


def url_problem(url: str) -> str:
    """Why `url` cannot be the beginning of an API's addresses; empty when it can."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return _("This is no URL: write it as https://host:port/path.")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return _("Write it as https://host:port/path, or with http.")
    if parts.username is not None or parts.password is not None:
        return _("Leave user and password out of it: the key has a field of its own.")
    if parts.query or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        return _("Leave out what stands behind ? or #, blanks and characters that are not ASCII.")
    if why := why_not(parts.hostname):
        return f"{parts.hostname} {why}."
    if is_shortened(parts.hostname):
        return _("Write the address %(hostname)s as four numbers: 127.0.0.1.") % {
            "hostname": parts.hostname
        }
    return ""


_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")


def declared_problem(declared: object) -> str:
    """Why this does not say how much memory a model takes; empty when it does."""
    if not isinstance(declared, dict):
        return _('Write an object: MiB by device, as {"Host": 2048, "CUDA0": 16384}.')
    for device, size in declared.items():
        if not _DEVICE.fullmatch(device):
            return _("%(value)s is no device: write Host, or a name of the devices' page.") % {
                "value": f"{device[:40]!r}"
            }
        if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= MOST_DECLARED:
            return _("%(device)s: write whole MiB, from 1 to %(MOST_DECLARED)s.") % {
                "device": device,
                "MOST_DECLARED": MOST_DECLARED,
            }
    return ""
