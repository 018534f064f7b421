"""Which preset a name means that a client writes as `model`. Pure.

An alias that ends with `*` stands for all names that begin so; `*` alone is the default, for names
that nobody has and for requests that name none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from django.utils.translation import gettext as _

from models_registry.naming import LONGEST_NAME, name_problem

LATEST = ":latest"
"""The tag that Ollama's clients put after a name that has none."""

ANY = "*"
"""The alias that makes its preset the default."""


def alias_problem(name: str) -> str:
    """What is wrong with `name` as an alias; empty when nothing is."""
    beginning = name.removesuffix(ANY)
    if ANY in beginning:
        return _("one * is allowed, and only at the end: it stands for whatever comes there")
    if beginning == name:
        return name_problem(name)
    if len(name) > LONGEST_NAME:
        return _("a name has at most %(LONGEST_NAME)s characters") % {"LONGEST_NAME": LONGEST_NAME}
    return name_problem(f"{beginning}x") if beginning else ""


def patterns_of(aliases: Iterable[str]) -> dict[str, str]:
    """By what a name must begin with, the aliases that end with `*`; without the default."""
    return {alias[:-1]: alias for alias in aliases if alias.endswith(ANY) and alias != ANY}


def pattern_for(name: str, patterns: Mapping[str, str]) -> str:
    """The alias with the longest beginning that `name` has; empty without one."""
    if not patterns:
        return ""
    beginnings = (name[:end] for end in range(len(name), 0, -1))
    return next((patterns[each] for each in beginnings if each in patterns), "")


def twin_of(name: str) -> str:
    """The other way to write it for clients of Ollama, to whom `x` and `x:latest` are one; empty
    for a name with another tag."""
    if name.endswith(LATEST):
        return name.removesuffix(LATEST)
    return f"{name}{LATEST}" if name and ":" not in name else ""


def spellings(name: str) -> Iterator[str]:
    """The ways in which clients of Ollama write it, as it stands first: with its registry, with
    the hub before a repository of Hugging Face, whose quantisation the cache writes in capitals."""
    yield name
    shown = name.removeprefix("registry.ollama.ai/").removeprefix("library/")
    for each in (twin_of(name), shown, twin_of(shown)):
        if each:
            yield each
    shown = shown.removesuffix(LATEST).removeprefix("hf.co/").removeprefix("huggingface.co/")
    repository, colon, tag = shown.partition(":")
    if "/" in repository:
        yield shown
        yield f"{repository}{colon}{tag.upper()}"


class Names:
    """Those of one state of the registry. `coming` ones are taken, but not there yet: neither a
    pattern nor the default answers for them."""

    def __init__(
        self,
        presets: Iterable[str] = (),
        aliases: Mapping[str, str] | None = None,
        coming: Container[str] = (),
    ) -> None:
        """`aliases` lead to names of presets; what is both is the preset."""
        self._presets = {**(aliases or {}), **{name: name for name in presets}}
        self._patterns = patterns_of(aliases or {})
        self._coming = coming

    def preset(self, name: str) -> str | None:
        """By its own name or an alias, each exactly as it is written."""
        return self._presets.get(name)

    def meant(self, name: str, *, exact: str = "", wildcard: str = "", default: str = "") -> str:
        """The preset's name, or the alias, by which a request for `name` goes; `name` itself when
        it leads nowhere. The others are where the caller's own aliases lead: an exact one, the
        best pattern, and the default."""
        if exact:
            return exact
        if name in self._presets or (name and name in self._coming):
            return name
        written = next((each for each in spellings(name) if each in self._presets), "")
        return (
            written
            or wildcard
            or pattern_for(name, self._patterns)
            or default
            or (ANY if ANY in self._presets else name)
        )

    def written(self) -> list[str]:
        """All that a client may write, patterns aside; sorted."""
        return sorted(name for name in self._presets if not name.endswith(ANY))
