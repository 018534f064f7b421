"""The stand-in hub's answers to one connection."""

from __future__ import annotations

import contextlib
import json
import re
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tests.support.hub.repositories import git_oid, in_git, sha256

if TYPE_CHECKING:
    from tests.support.hub import Fault, Hub

_API = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)(?:/revision/(?P<revision>[^/]+))?")
_RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_MANIFEST = re.compile(r"/v2/(?P<path>.+)/manifests/(?P<tag>[^/]+)")
_BLOB = re.compile(r"/v2/.+/blobs/(?P<digest>[^/]+)")
_PIECE = 16 << 10


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> Hub:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.hub.lock:
            self.hub.asked.append((self.command, path, headers))
        fault = self.hub.take_fault(path)
        with contextlib.suppress(OSError):  # the client has gone
            if fault is not None and fault.kind == "hang":
                self.hub.released.wait(60)
                self.close_connection = True
            elif fault is not None and fault.kind.isdigit():
                more = {"Retry-After": fault.retry_after} if fault.retry_after else {}
                self._send(int(fault.kind), b"trouble", **more)
            else:
                self._route(path, headers, fault)

    def _route(self, path: str, headers: dict[str, str], fault: Fault | None) -> None:
        hub = self.hub
        if path in hub.redirects:
            self._send(302, b"", Location=hub.redirects[path])
        elif match := _API.fullmatch(path):
            self._describe(match["repo"], match["revision"] or "main", headers)
        elif match := _RESOLVE.fullmatch(path):
            self._resolve(match, headers, fault)
        elif match := _MANIFEST.fullmatch(path):
            name = f"{match['path']}/{match['tag']}"
            self._content(hub.manifests.get(name), headers, fault)
        elif match := _BLOB.fullmatch(path):
            self._content(hub.blobs.get(match["digest"]), headers, fault)
        elif path.startswith("/cdn/"):
            contents = (c for repo in hub.repositories.values() for c in repo.files.values())
            found = next((c for c in contents if sha256(c) == path.removeprefix("/cdn/")), None)
            self._content(found, headers, fault)
        else:
            self._content(hub.files.get(path), headers, fault)

    def _describe(self, name: str, revision: str, headers: dict[str, str]) -> None:
        repo = self.hub.repositories.get(name)
        if repo is None or (repo.private and not repo.may_read(headers)):
            self._send(401, b"{}", **{"X-Error-Code": "RepoNotFound"})
        elif not repo.knows(revision):
            self._send(404, b"{}", **{"X-Error-Code": "RevisionNotFound"})
        else:
            body = json.dumps(repo.described()).encode()
            self._send(200, body, **{"Content-Type": "application/json"})

    def _resolve(self, match: re.Match[str], headers: dict[str, str], fault: Fault | None) -> None:
        repo = self.hub.repositories.get(match["repo"])
        if repo is None or match["path"] not in repo.files:
            self._send(404, b"", **{"X-Error-Code": "EntryNotFound"})
            return
        if not repo.may_read(headers):
            self._send(403, b"", **{"X-Error-Code": "GatedRepo"})
            return
        content = repo.files[match["path"]]
        said = {"X-Repo-Commit": repo.commit}
        if in_git(content) or (fault is not None and fault.kind == "html"):
            said["ETag"] = f'"{git_oid(content)}"'
            self._content(content, headers, fault, said)
            return
        said |= {
            "X-Linked-Etag": f'"{sha256(content)}"',
            "X-Linked-Size": str(len(content)),
            "Location": f"{self.hub.cdn_url}/cdn/{sha256(content)}",
        }
        self._send(302, b"", **said)

    def _content(
        self,
        content: bytes | None,
        headers: dict[str, str],
        fault: Fault | None,
        said: dict[str, str] | None = None,
    ) -> None:
        kind = fault.kind if fault is not None else ""
        said = {"ETag": f'"{sha256(content or b"")}"', "Accept-Ranges": "bytes", **(said or {})}
        if content is None:
            self._send(404, b"nothing here")
            return
        if kind == "html":
            self._send(200, b"<html>Please log in</html>", **{"Content-Type": "text/html"})
            return
        if kind == "wrong":
            content = content[:-1] + bytes([content[-1] ^ 1])
        start, end, status = 0, len(content), 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        same = headers.get("if-range", said["ETag"]) == said["ETag"]
        if asked and kind != "no-ranges" and same:
            start = int(asked[1])
            end = min(len(content), int(asked[2]) + 1) if asked[2] else len(content)
            status = 206
            if start >= len(content):
                self._send(416, b"", **{"Content-Range": f"bytes */{len(content)}"})
                return
            said["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        stops = start + (end - start) // 2 if kind == "half" else end
        self._send(status, content[start:end], stops - start, **said)

    def _send(self, status: int, body: bytes, sent: int | None = None, **said: str) -> None:
        """`sent`: so many bytes of the body, then the connection breaks."""
        self.send_response(status)
        for name, value in said.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        stops = len(body) if sent is None else sent
        for at in range(0, stops, _PIECE):
            self.wfile.write(body[at : min(at + _PIECE, stops)])
            if self.hub.bytes_per_second:
                time.sleep(_PIECE / self.hub.bytes_per_second)
        if stops < len(body):
            self.close_connection = True
