"""A further device without a GPU: llama.cpp's RPC server, on loopback only."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator

from models_registry.engine_path import llama_server
from tests.support.polling import eventually

GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}
"""So that what it has received and passed on does not stay with its allocator (docs/memory.md)."""


@contextlib.contextmanager
def rpc_device() -> Iterator[str]:
    """Its `host:port`, as llama-server's --rpc takes it."""
    port = _free_port()
    process = subprocess.Popen(
        [llama_server().with_name("ggml-rpc-server"), "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **GIVES_BACK},
        restore_signals=False,  # SIGPIPE stays ignored: a child that is killed would end it too
    )
    try:
        eventually(lambda: process.poll() is None and _listens(port), "the RPC server listens")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0
