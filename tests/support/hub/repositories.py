"""What a repository holds, and what the hub's API says of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

SMALL = 1000
"""Bytes up to which a file is kept in git itself: its checksum is a git blob's SHA-1."""


@dataclass
class Repository:
    name: str
    files: dict[str, bytes]
    private: bool = False
    gated: bool = False
    token: str = "hf_right"
    branches: dict[str, str] = field(default_factory=dict)
    """Further names of its commit."""

    @property
    def commit(self) -> str:
        digest = hashlib.sha1()
        for path, content in sorted(self.files.items()):
            digest.update(path.encode() + b"\0" + content)
        return digest.hexdigest()

    def knows(self, revision: str) -> bool:
        return revision in ("main", self.commit, *self.branches)

    def may_read(self, headers: dict[str, str]) -> bool:
        token = headers.get("authorization", "").removeprefix("Bearer ")
        return token == self.token or not (self.private or self.gated)

    def described(self) -> dict[str, Any]:
        """As the API lists it with ?blobs=true."""
        return {
            "_id": "1",
            "id": self.name,
            "modelId": self.name,
            "sha": self.commit,
            "private": self.private,
            "gated": "manual" if self.gated else False,
            "disabled": False,
            "downloads": 0,
            "likes": 0,
            "tags": [],
            "siblings": [sibling(path, self.files[path]) for path in sorted(self.files)],
        }


def sibling(path: str, content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"rfilename": path, "blobId": git_oid(content), "size": len(content)}
    if not in_git(content):
        found["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 134}
    return found


def in_git(content: bytes) -> bool:
    return len(content) <= SMALL


def git_oid(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
