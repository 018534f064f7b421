"""Every option the engine knows, read from `llama-server --help`.

The help text is the only list of options that each engine version carries with it.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum, auto
from pathlib import Path

from models_registry.errors import EngineMissing
from models_registry.options.kept_help import keep, kept

HELP_SECONDS = 30.0
"""It takes 0.02 s; a first start may read the program from a slow disk."""

_COLUMN = 40  # where llama.cpp begins an option's description
_HEADER = re.compile(
    r"(?P<names>-{1,2}[^\s,-][^\s,]*(?:,\s+-{1,2}[^\s,-][^\s,]*)*)(?:\s+(?P<hint>\S.*))?"
)


class Kind(StrEnum):
    FLAG = auto()  # no value: on, or off where a negated spelling exists
    INT = auto()
    FLOAT = auto()
    CHOICE = auto()
    TEXT = auto()
    PAIR = auto()  # two values, which a `key = value` line cannot hold


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `spellings` and `negations` have their dashes; `key` is the last long spelling,
    which llama.cpp itself renders. `choices` of an INT are the words it takes beside a number.
    `default` is what the help says of it, in the engine's words; empty where it says nothing.
    `section` is the heading under which the help has it: common, sampling …"""

    key: str
    spellings: tuple[str, ...]
    negations: tuple[str, ...] = ()
    hint: str = ""
    kind: Kind = Kind.FLAG
    choices: tuple[str, ...] = ()
    environment: str = ""
    help: str = ""
    default: str = ""
    section: str = ""

    @property
    def removed(self) -> bool:
        return "argument has been removed" in self.help

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling without its dashes, the negated ones included."""
        return tuple(spelling.lstrip("-") for spelling in self.spellings + self.negations)


@dataclass(frozen=True, slots=True)
class Match:
    """What a spelling means: an option, or its opposite."""

    option: Option
    negated: bool = False


@dataclass(frozen=True, eq=False)
class Catalogue:
    """All options of one engine; as a key it is itself alone."""

    options: tuple[Option, ...]
    _by_spelling: dict[str, Match] = field(default_factory=dict, repr=False, compare=False)
    _by_key: dict[str, Match] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for option in self.options:
            for spelling in option.spellings:
                self._by_spelling.setdefault(spelling, Match(option))
            for spelling in option.negations:
                self._by_spelling.setdefault(spelling, Match(option, negated=True))
            for name, match in _environment_matches(option):
                self._by_key.setdefault(name, match)
        for spelling, match in self._by_spelling.items():
            self._by_key.setdefault(spelling.lstrip("-"), match)

    def find(self, key: str) -> Match | None:
        """By any spelling without its dashes (or with them), or by the environment name.

        `_` counts as `-`, which llama.cpp's command line allows and its INI files do not.
        """
        name = key.strip().lstrip("-")
        return self._by_key.get(name) or self._by_key.get(name.replace("_", "-"))

    def find_token(self, token: str) -> Match | None:
        """By a spelling as it stands on a command line, dashes included."""
        if token.startswith("--"):
            token = token.replace("_", "-")
        return self._by_spelling.get(token)

    def option(self, key: str) -> Option:
        """The option of a canonical key; KeyError when the engine does not know it."""
        match = self.find(key)
        if match is None:
            raise KeyError(key)
        return match.option

    def environment_options(self) -> Iterator[tuple[str, Match]]:
        """(environment name, what it sets), negated names included."""
        for option in self.options:
            yield from _environment_matches(option)

    def suggestion(self, key: str, allowed: Iterable[Option]) -> str:
        """The nearest spelling of an allowed option, without dashes; empty when none is near."""
        names = [name for option in allowed for name in option.names if len(name) > 2]
        written = key.strip().lstrip("-").replace("_", "-")
        near = difflib.get_close_matches(written, names, n=1)
        near = near or difflib.get_close_matches(written.lower(), names, n=1)
        return near[0] if near else ""


def _environment_matches(option: Option) -> Iterator[tuple[str, Match]]:
    if not option.environment:
        return
    yield option.environment, Match(option)
    if option.negations and option.environment.startswith("LLAMA_ARG_"):
        # Set at all, LLAMA_ARG_NO_X turns X off. (`--no-host` and its like have no negation.)
        yield option.environment.replace("LLAMA_ARG_", "LLAMA_ARG_NO_", 1), Match(option, True)


def parse_help(text: str) -> Catalogue:
    """The options in the order of the help. Whatever the text is, lines that are no option are
    skipped."""
    found = (_option(header, lines, section) for section, header, lines in _blocks(text))
    return Catalogue(tuple(option for option in found if option is not None))


_HEADING = re.compile(r"-{5} (\S.*?)(?: params)? -{5}")


_SECTIONS = {"example-specific": "server"}
"""What llama.cpp calls its own programs means nothing to whoever sets an option."""


def _blocks(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """(heading, header, lines of the description) of each option."""
    section, header, lines = "", "", list[str]()
    for line in text.splitlines():
        if line.startswith("-----") or not line.strip():
            if heading := _HEADING.fullmatch(line.strip()):
                if header:
                    yield section, header, lines
                section, header, lines = _SECTIONS.get(heading[1], heading[1]), "", []
            continue
        if not line.startswith("-"):
            lines.append(line[_COLUMN:] if line[:_COLUMN].isspace() else line.strip())
            continue
        if header:
            yield section, header, lines
        # A header that leaves no room before the column has its description on the next line.
        beside = len(line) > _COLUMN and line[_COLUMN - 3 : _COLUMN].isspace()
        header = line[:_COLUMN].rstrip() if beside else line.rstrip()
        lines = [line[_COLUMN:]] if beside else []
    if header:
        yield section, header, lines


def _option(header: str, lines: list[str], section: str) -> Option | None:
    """None for a line that only looks like one: a bullet, a ruler."""
    match = _HEADER.fullmatch(header)
    if match is None:
        return None
    names = re.split(r",\s+", match["names"])
    spellings, negations = _positive_and_negated(names)
    hint = (match["hint"] or "").strip()
    description = "\n".join(lines).strip()
    environment = re.search(r"\(env: (\w+)\)", description)
    kind, choices = _kind(hint, description)
    return Option(
        key=_canonical(spellings),
        spellings=tuple(spellings),
        negations=tuple(negations),
        hint=hint,
        kind=kind,
        choices=choices,
        environment=environment[1] if environment else "",
        help=re.sub(r"\s*\(env: \w+\)$", "", description),
        default=_default(" ".join(description.split())),
        section=section,
    )


_DEFAULT = re.compile(r"\bdefault: ('[^']*'|(?:[^,;()]|[,;](?! ))*)")


def _default(joined: str) -> str:
    """Of `(default: 40, 0 = disabled)` 40, of `default: 'auto'` auto."""
    found = _DEFAULT.search(joined)
    return found[1].split(" = ")[0].strip().strip("'\"") if found else ""


def _positive_and_negated(names: list[str]) -> tuple[list[str], list[str]]:
    """Positive spellings come first, then the negated ones, each with its short forms before it.

    `--no-host` alone is a positive spelling: nothing stands before it that it could negate.
    """
    longs = [place for place, name in enumerate(names) if name.startswith("--")]
    positive = [place for place in longs if not names[place].startswith("--no-")]
    if not positive or len(positive) == len(longs):
        return names, []
    return names[: positive[-1] + 1], names[positive[-1] + 1 :]


def _canonical(spellings: list[str]) -> str:
    longs = [name for name in spellings if name.startswith("--")]
    return (longs or spellings)[-1].lstrip("-")


_NUMBERS = {"N", "P", "L", "SEED", "INDEX", "SECONDS", "PORT", "SIMILARITY"}
_WORDS = {"TYPE", "MODE", "FORMAT"}


def _kind(hint: str, description: str) -> tuple[Kind, tuple[str, ...]]:
    joined = " ".join(description.split())
    if not hint:
        return Kind.FLAG, ()
    if hint == "START END":
        return Kind.PAIR, ()
    if listed := re.fullmatch(r"\[([\w|]+)\]|<([\w|]+)>|\{([\w,]+)\}", hint):
        return Kind.CHOICE, tuple(re.split(r"[|,]", next(filter(None, listed.groups()))))
    if re.fullmatch(r"<\d+\.\.\.\d+>", hint):
        return Kind.INT, ()
    if listed := re.search(r"allowed values: ([\w, ]+)", joined):
        return Kind.CHOICE, tuple(listed[1].replace(" ", "").split(","))
    if hint in _WORDS and (bullets := re.findall(r"^\s*- ([\w+-]+)\b[^:\n]*:", description, re.M)):
        default = re.search(r"\(default: (\w+)\)", joined)
        return Kind.CHOICE, tuple(dict.fromkeys(bullets + ([default[1]] if default else [])))
    if hint in _NUMBERS:
        return _number(hint, joined)
    return Kind.TEXT, ()


def _number(hint: str, joined: str) -> tuple[Kind, tuple[str, ...]]:
    words: tuple[str, ...] = ()
    if exact := re.search(r"exact number, ([^()]*)", joined):
        words = tuple(re.findall(r"'(\w+)'", exact[1]))
    default = re.search(r"default: (-?[0-9]+(?:\.[0-9]+)?)", joined)
    if default:
        return (Kind.FLOAT if "." in default[1] else Kind.INT), words
    # Without a default to judge by: probabilities and lengths are fractions, and so is what
    # scales the rotary embedding; counts are whole.
    fraction = hint in {"P", "L"} or joined.startswith(("RoPE", "KV cache defragmentation"))
    return (Kind.FLOAT if fraction else Kind.INT), words


_known: dict[tuple[str, int, int], Catalogue] = {}
_known_lock = threading.Lock()


def engine_catalogue(program: Path) -> Catalogue:
    """The options of the llama-server at `program`, asked once for each version of the file,
    whichever process asks.

    Raises EngineMissing when it cannot be run or its help is not a server's.
    """
    try:
        found = program.stat()
    except OSError as error:
        raise EngineMissing(f"{program} cannot be read ({error.strerror})") from error
    version = (str(program), found.st_mtime_ns, found.st_size)
    with _known_lock:
        if version not in _known:
            before = kept(version)
            text = before or _help_text(program)
            catalogue = parse_help(text)
            if catalogue.find("ctx-size") is None:
                raise EngineMissing(
                    f"{program} is not a llama-server: its --help names no --ctx-size"
                )
            if not before:
                keep(version, text)
            _known[version] = catalogue
        return _known[version]


def bare_environment() -> dict[str, str]:
    """To ask the engine something of itself: none of our secrets, and no LLAMA_ARG_ of ours, on
    which it might stumble."""
    passed = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return passed | {"LANG": "C.UTF-8"}


def _help_text(program: Path) -> str:
    try:
        done = subprocess.run(
            [program, "--help"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=bare_environment(),
            timeout=HELP_SECONDS,
            check=True,
            text=True,
            errors="replace",
        )
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout or "").strip().splitlines()[-1:]
        raise EngineMissing(
            f"{program} --help failed with {error.returncode}: {' '.join(words) or 'no output'}"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineMissing(f"{program} does not run: {error}") from error
    return done.stdout
