"""A command line of llama-server's, as other programs start it, taken apart. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from models_registry.errors import OptionError
from models_registry.options.catalogue import Catalogue, Kind, Match
from models_registry.options.command_line import known_option, option_value
from models_registry.options.old_options import OldOptions

FILES = frozenset({"model", "mmproj", "model-draft", "hf-repo", "hf-file"})
"""Options that say which files are run, by canonical key."""

_DROPPED = frozenset({"host", "port", "alias", "offline", "slots", "webui", "log-colors"})
"""Every child of Corral's has its own of these; nothing is lost."""

_LONG = re.compile(r"--[A-Za-z]")
_PROGRAM = re.compile(r"llama-server([-_.][\w.+-]*)?")  # a build may be in its name
_WRAPPERS = frozenset(
    {"env", "nice", "ionice", "numactl", "taskset", "stdbuf", "chrt", "time", "setpriv", "sudo"}
)
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "apptainer", "singularity"})
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "cmd", "cmd.exe", "powershell", "pwsh"})


class NoServer(Exception):
    """The command is not one of llama-server's; the message says what it is."""


@dataclass(slots=True)
class ServerCommand:
    """`files` by their option's key, `options` by canonical key, each value checked; `environment`
    what an `env` before it sets; `notes` what is not taken, never with a value in it."""

    files: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_command(text: str, catalogue: Catalogue) -> ServerCommand:
    """As llama-swap reads it: by words, without a shell. Raises NoServer."""
    command = ServerCommand()
    words = _arguments(_words(text), command)
    old = OldOptions(catalogue)
    for name, match, value in _options(words, old, catalogue):
        try:
            _take(command, old, catalogue, name, match, value)
        except OptionError as error:
            command.notes.append(f"{name} is not taken: {error.message}")
    if (mode := old.load_mode()) and "load-mode" not in command.options:
        command.options["load-mode"] = mode[0]
        command.notes.append(mode[1])
    return command


def without_remarks(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(without_remarks(text).replace("\\\n", " "))
    except ValueError as error:
        raise NoServer(f"its command cannot be split into words: {error}") from error
    if not words:
        raise NoServer("it has no command")
    return words


def _arguments(words: list[str], command: ServerCommand) -> list[str]:
    """What stands behind the program's name."""
    first = _basename(words[0])
    if _PROGRAM.fullmatch(first):
        return words[1:]
    if first in _CONTAINERS:
        raise NoServer(f"{first} runs it in a container, whose paths are not this machine's")
    if first in _SHELLS:
        raise NoServer(f"{first} runs it: write llama-server's own command line instead")
    place = next((at for at, word in enumerate(words) if _PROGRAM.fullmatch(_basename(word))), None)
    if first not in _WRAPPERS or place is None:
        raise NoServer(f"{first} is not llama-server")
    if first == "env":
        assignments = (word.partition("=") for word in words[1:place] if "=" in word)
        command.environment |= {name: value for name, _, value in assignments}
    else:
        command.notes.append(f"{first} and its own options before llama-server are not taken")
    return words[place + 1 :]


def _basename(word: str) -> str:
    return re.split(r"[/\\]", word)[-1]


def _options(
    words: list[str], old: OldOptions, catalogue: Catalogue
) -> Iterator[tuple[str, Match | None, str | None]]:
    """(name as written, what it means, its value) of each option. Of one that is not known, the
    word behind it is its value unless it looks like an option."""
    rest = list(words)
    while rest:
        name = rest.pop(0)
        value: str | None = None
        match = catalogue.find_token(name)
        if match is None and name.startswith("--") and "=" in name:
            name, _, value = name.partition("=")
            match = catalogue.find_token(name)
        if renamed := old.new_name(name):
            match = catalogue.find(renamed[0])
        if value is None and rest and not old.is_old_switch(name):
            if match is None:
                value = rest.pop(0) if not rest[0].startswith("-") else None
            elif match.option.kind is not Kind.FLAG and not _is_option(rest[0], catalogue):
                value = rest.pop(0)
        yield name, match, value


def _is_option(word: str, catalogue: Catalogue) -> bool:
    """Also one that this engine does not know: an older one's, behind what was a switch there."""
    return bool(_LONG.match(word)) or catalogue.find_token(word) is not None


def _take(
    command: ServerCommand,
    old: OldOptions,
    catalogue: Catalogue,
    name: str,
    match: Match | None,
    value: str | None,
) -> None:
    """Raises OptionError for what cannot be taken."""
    if not name.startswith("-"):
        raise OptionError(name, "it is not an option")
    if old.is_old_switch(name):
        old.take_switch(name, value or "true")
        return
    key = match.option.key if match else ""
    if match is None or key not in _DROPPED | FILES:
        match = known_option(name, catalogue, match=match)
    if value is None and match.option.kind is not Kind.FLAG:
        if "on" not in match.option.choices:
            raise OptionError(name, "it has no value")
        value = "on"  # --flash-attn was a switch once
    if key in FILES:
        command.files[key] = value or ""
    elif key not in _DROPPED:
        command.options[key] = option_value(match, value or "true", name)
