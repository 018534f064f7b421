"""Repositories on Hugging Face: what they hold, and where it lies in the shared cache.

huggingface_hub says what there is; the bytes are fetched by transfer.py, into that library's own
layout and under its locks, so that llama.cpp and others find them.
"""

from __future__ import annotations

import os
import posixpath
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from models_registry.downloads.choosing import (
    SIDECARS,
    choose_model,
    choose_sidecar,
    tag_of,
    with_shards,
)
from models_registry.downloads.planned import Plan, PlannedFile, Refused
from models_registry.downloads.targets import HubTarget
from models_registry.downloads.wire import Line, Trouble, retry_after_seconds
from models_registry.naming import file_stem, valid_name

ASK_SECONDS = 30.0
LONGEST_PART = 255
"""Bytes of a file's or a folder's name on the disk."""

_HEX = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

T = TypeVar("T")


def plan(
    target: HubTarget,
    *,
    revision: str,
    commit: str,
    sidecars: Sequence[str],
    token: str,
    endpoint: str,
    cache: Path,
    line: Line,
) -> Plan:
    """At `commit` when it is known, else at what `revision` (main when empty) means now.

    Raises Refused, Trouble or Ended.
    """
    found = _asked(target.repo, commit or revision or None, token, endpoint, line)
    sha = str(found.sha or "")
    if not _HEX.fullmatch(sha):
        raise Refused(f"{endpoint} names no commit for {target.repo}")
    listed = {
        file.rfilename: file for file in found.siblings or () if isinstance(file.rfilename, str)
    }
    chosen = _chosen(target, list(listed), sidecars)
    repo = cache / f"models--{target.repo.replace('/', '--')}"
    files = tuple(
        _planned(listed[path], role, target.repo, repo, sha, endpoint) for path, role in chosen
    )
    tag = tag_of(chosen[0][0])
    return Plan(
        name=f"{target.repo}:{tag}" if tag else name_by_file(target.repo, chosen[0][0]),
        folder=str(cache),
        files=files,
        commit=sha,
        reference="" if revision == sha else str(repo / "refs" / (revision or "main")),
    )


def name_by_file(repo: str, path: str) -> str:
    """Of a file without a tag, or of a second one of the same tag: as the cache's reader has it."""
    return valid_name(f"{repo}/{posixpath.dirname(path)}/{file_stem(posixpath.basename(path))}")


def _chosen(
    target: HubTarget, paths: Sequence[str], sidecars: Sequence[str]
) -> list[tuple[str, str]]:
    """(path, role), the model's first file first."""
    model = choose_model(paths, tag=target.tag, file=target.file)
    chosen = [(path, "model") for path in with_shards(model, paths)]
    for kind in SIDECARS:
        if kind in sidecars and (path := choose_sidecar(paths, model, kind)):
            chosen.append((path, kind))
    return chosen


def _planned(
    file: Any, role: str, name: str, repo: Path, commit: str, endpoint: str
) -> PlannedFile:
    path = _safe(file.rfilename)
    blob = file.lfs.sha256 if file.lfs is not None else file.blob_id
    if not isinstance(blob, str) or not _HEX.fullmatch(blob):
        raise Refused(f"{endpoint} names no checksum of {path}")
    if file.size is not None and (type(file.size) is not int or file.size < 0):
        raise Refused(f"{endpoint} names no usable size of {path}")
    from huggingface_hub import hf_hub_url

    at = repo / "blobs" / blob
    return PlannedFile(
        path=path,
        url=hf_hub_url(name, path, revision=commit, endpoint=endpoint),
        size=file.size,
        checksum=f"{'sha256' if len(blob) == 64 else 'git'}:{blob}",
        at=str(at),
        part=f"{at}.incomplete",
        lock=str(repo.parent / ".locks" / repo.name / f"{blob}.lock"),
        link=str(repo / "snapshots" / commit / path),
        role=role,
    )


def _safe(path: str) -> str:
    """Raises Refused for a name that would lead out of its folder."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or not path.isprintable() or "\\" in path:
        raise Refused(f"the repository has a file of the name {path!r}, which is not taken")
    if any(len(os.fsencode(part)) > LONGEST_PART for part in parts):
        raise Refused(f"no disk takes a name as long as {path[:60]!r}…")
    return path


def _asked(repo: str, revision: str | None, token: str, endpoint: str, line: Line) -> Any:
    """Raises Refused, Trouble or Ended."""
    import httpx2
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(endpoint=endpoint, token=token or False)
    try:
        return interruptible(
            line,
            lambda: api.model_info(
                repo, revision=revision, files_metadata=True, timeout=ASK_SECONDS
            ),
        )
    except HfHubHTTPError as error:
        raise _judged(repo, error) from error
    except (httpx2.HTTPError, OSError) as error:
        raise Trouble(f"{endpoint}: {str(error) or type(error).__name__}") from error
    except UnicodeEncodeError as error:
        raise Refused("the token (HF_TOKEN, or the download's own) holds no ASCII alone") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Trouble(f"{endpoint} answers what is no list of files: {error}") from error


def _judged(repo: str, error: Any) -> Refused | Trouble:
    from huggingface_hub.errors import (
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, GatedRepoError):
        return Refused(
            f"{repo} is gated: accept its licence on its page, and give a token of that account "
            "(HF_TOKEN, or the download's own)"
        )
    if isinstance(error, RevisionNotFoundError):
        return Refused(f"{repo} has no such revision")
    if isinstance(error, RepositoryNotFoundError):
        return Refused(
            f"there is no repository {repo}, or it is private and the token (HF_TOKEN, or the "
            "download's own) may not read it"
        )
    status = error.response.status_code
    if status in (408, 429) or status >= 500:
        headers: Mapping[str, str] = error.response.headers
        return Trouble(
            f"the hub answers {status} for {repo}",
            retry_after_seconds(headers.get("Retry-After", "")),
        )
    return Refused(f"the hub answers {status} for {repo}")


def interruptible(line: Line, function: Callable[[], T]) -> T:
    """What it returns or raises; or Ended as soon as the line is ended, whatever it still does."""
    outcome: list[T] = []
    problem: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            problem.append(error)
        done.set()

    threading.Thread(target=run, name="asks the hub", daemon=True).start()
    while not done.wait(0.1):
        line.check()
    if problem:
        raise problem[0]
    return outcome[0]
