"""What a download's target means: a repository, a URL, a name of Ollama's. Pure."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from models_registry.models import Download
from models_registry.naming import file_stem, valid_name

LONGEST_TARGET = 1024

_REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_FILE = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._+/ -]*\.gguf")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}")
_OLLAMA = re.compile(
    r"(?:(?:(?P<host>[A-Za-z0-9.-]+(?::[0-9]{1,5})?)/)?(?P<namespace>[A-Za-z0-9_][A-Za-z0-9._-]{0,79})/)?"
    r"(?P<model>[A-Za-z0-9_][A-Za-z0-9._-]{0,79})(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,79}))?"
)
_SHA256 = re.compile(r"sha256=([0-9a-f]{64})")


class BadTarget(Exception):
    """What was asked for is no repository, URL or name; the message says what one looks like."""


@dataclass(frozen=True, slots=True)
class HubTarget:
    """`tag` is a quantisation or empty; `file` is a path in the repository or empty."""

    repo: str
    tag: str = ""
    file: str = ""

    @property
    def name(self) -> str:
        """What it is called until its files are known."""
        return f"{self.repo}:{self.tag}" if self.tag else self.repo


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """`sha256` stands behind the `#`, as pip has it; empty without one."""

    url: str
    file: str
    sha256: str = ""

    @property
    def name(self) -> str:
        return valid_name(file_stem(self.file))


@dataclass(frozen=True, slots=True)
class OllamaTarget:
    """`host` is empty for the registry of the settings."""

    model: str
    tag: str = "latest"
    namespace: str = "library"
    host: str = ""

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.model}"

    @property
    def name(self) -> str:
        """As Ollama lists it: what is the default is left out."""
        model = f"{self.model}:{self.tag}"
        if self.host:
            return f"{self.host}/{self.path}:{self.tag}"
        return model if self.namespace == "library" else f"{self.namespace}/{model}"


Target = HubTarget | UrlTarget | OllamaTarget


def parse(kind: str, text: str) -> Target:
    """Raises BadTarget."""
    if len(text) > LONGEST_TARGET:
        raise BadTarget(f"a target has at most {LONGEST_TARGET} characters")
    if kind == Download.Kind.HUB:
        return hub_target(text)
    if kind == Download.Kind.URL:
        return url_target(text)
    return ollama_target(text)


def check_revision(kind: str, revision: str) -> None:
    """Raises BadTarget for one that is no branch, tag or commit, or that means nothing here."""
    if revision and kind != Download.Kind.HUB:
        raise BadTarget("only a repository on Hugging Face has revisions: leave it out")
    if revision and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise BadTarget(f"{revision!r} is no branch, tag or commit")


def hub_target(text: str) -> HubTarget:
    repo, colon, ending = text.partition(":")
    if len(repo) > 256 or not _REPO.fullmatch(repo) or ".." in repo or "--" in repo:
        raise BadTarget("invalid HF repo format, expected <user>/<model>[:quant]")
    if not colon:
        return HubTarget(repo)
    if ending.endswith(".gguf"):
        if not _FILE.fullmatch(ending) or ".." in ending or ending.startswith("/"):
            raise BadTarget(f"{ending!r} is no path of a GGUF in a repository")
        return HubTarget(repo, file=ending)
    if not _TAG.fullmatch(ending):
        raise BadTarget("invalid HF repo format, expected <user>/<model>[:quant]")
    return HubTarget(repo, tag=ending)


def url_target(text: str) -> UrlTarget:
    wanted = "write an address such as https://host/folder/model.gguf"
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - a port that is none raises here
    except ValueError as error:
        raise BadTarget(f"{text!r} is no URL ({error}): {wanted}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadTarget(f"{text!r} is no http or https URL: {wanted}")
    if parts.username or parts.password:
        raise BadTarget("a URL with a name or a password in it is not taken")
    if not text.isascii() or any(character <= " " or character == "\x7f" for character in text):
        raise BadTarget("a URL holds no blanks, control characters or letters beyond ASCII")
    file = posixpath.basename(unquote(parts.path))
    if not file.endswith(".gguf") or not _FILE.fullmatch(file) or file.startswith("."):
        raise BadTarget(f"the URL must end with a file such as model.gguf, not {file!r}")
    checksum = _SHA256.fullmatch(parts.fragment)
    if parts.fragment and checksum is None:
        raise BadTarget("after the # only a checksum may stand: #sha256=<64 hexadecimal digits>")
    return UrlTarget(
        parts._replace(fragment="").geturl(), file, checksum[1] if checksum is not None else ""
    )


def ollama_target(text: str) -> OllamaTarget:
    match = _OLLAMA.fullmatch(text)
    if match is None or ".." in text:
        raise BadTarget("a name of Ollama's registry is model[:tag] or namespace/model[:tag]")
    return OllamaTarget(
        model=match["model"],
        tag=match["tag"] or "latest",
        namespace=match["namespace"] or "library",
        host=match["host"] or "",
    )
