"""A stand-in for Hugging Face, Ollama's registry and a plain file server, on loopback.

It serves repositories to the real huggingface_hub: listing, revisions, HEAD with the linked
headers, redirects of large files to another origin, ranges. Faults are put in its way by path.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path

from tests.support.hub.answering import Handler
from tests.support.hub.repositories import Repository


@dataclass
class Fault:
    """For requests whose path holds `path`, so many `times` (-1: always).

    `kind`: none (let it pass), hang, half, wrong, html, no-ranges, or a status such as 429
    (with `retry_after`).
    """

    path: str
    kind: str
    times: int = 1
    retry_after: str = ""


@dataclass
class Hub:
    server: ThreadingHTTPServer
    cdn: ThreadingHTTPServer
    repositories: dict[str, Repository] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    bytes_per_second: float = 0
    """0: as fast as it goes."""
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def cdn_url(self) -> str:
        """Where large files lie: another origin, which gets no token."""
        return f"http://127.0.0.1:{self.cdn.server_address[1]}"

    def repository(self, name: str, files: dict[str, bytes], **fields: object) -> Repository:
        found = Repository(name, dict(files), **fields)  # type: ignore[arg-type]
        self.repositories[name] = found
        return found

    def ollama(self, path: str, tag: str, layers: dict[str, bytes]) -> None:
        """`path` is namespace/model; layers by the last word of their media type."""
        listed = []
        for kind, content in layers.items():
            digest = "sha256:" + hashlib.sha256(content).hexdigest()
            self.blobs[digest] = content
            listed.append(
                {
                    "mediaType": f"application/vnd.ollama.image.{kind}",
                    "digest": digest,
                    "size": len(content),
                }
            )
        self.manifests[f"{path}/{tag}"] = json.dumps({"layers": listed}).encode()

    def fault(self, path: str, kind: str, times: int = 1, retry_after: str = "") -> None:
        self.faults.append(Fault(path, kind, times, retry_after))

    def take_fault(self, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.path in path and fault.times:
                    fault.times -= 1
                    return fault
        return None

    def asked_for(self, part: str, method: str = "GET") -> list[dict[str, str]]:
        """The headers of the requests whose path holds it."""
        return [headers for verb, path, headers in self.asked if verb == method and part in path]


def downloads_from(serving: Hub, folder: Path) -> dict[str, str]:
    """For a gateway's environment: its hub, and a cache in `folder`."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    return {
        "CORRAL_HF_CACHE": str(cache),
        "HF_HOME": str(folder / "home"),
        "HF_ENDPOINT": serving.url,
        "CORRAL_DOWNLOAD_HOSTS": f"{serving.url},{serving.cdn_url}",
    }


@contextmanager
def hub() -> Iterator[Hub]:
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
    found = Hub(*servers)
    threads = []
    for server in servers:
        server.daemon_threads = True
        server.hub = found  # type: ignore[attr-defined]
        threads.append(threading.Thread(target=server.serve_forever, args=(0.05,), name="hub"))
        threads[-1].start()
    try:
        yield found
    finally:
        found.released.set()
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()
