"""The listening sockets: `serve` owns them, the web processes inherit them."""

from __future__ import annotations

import errno
import ipaddress
import socket

BACKLOG = 2048


class CannotListen(Exception):
    """The address cannot be listened on; the message says why and what to do."""


def listen_on(host: str, port: int, ollama_port: int | None) -> list[socket.socket]:
    """The gateway's socket, and Ollama's where there is a port for it. Raises CannotListen."""
    if port == ollama_port and port != 0:
        raise CannotListen(
            f"port {port} cannot be both --port and --ollama-port: give each one of its own"
        )
    listener = listen(host, port)
    if ollama_port is None:
        return [listener]
    try:
        return [listener, listen(host, ollama_port, option="--ollama-port")]
    except CannotListen:
        listener.close()
        raise


def listen(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """`option` is where the port was asked for. Raises CannotListen."""
    family, address = _resolve(host, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Not for a port that is in use, only for one whose last connections are still ending.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(_reason(error, host, port, option)) from error
    return listener


def is_loopback(host: str) -> bool:
    """Whether nobody outside this machine can reach it. Raises CannotListen for an unknown name."""
    _, address = _resolve(host, 0)
    return ipaddress.ip_address(address[0].partition("%")[0]).is_loopback


def url_of(listener: socket.socket) -> str:
    """Where a client on this machine reaches it."""
    host, port = listener.getsockname()[:2]
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.is_unspecified:
        host = "127.0.0.1"
    elif address.version == 6:
        host = f"[{host}]"
    return f"http://{host}:{port}"


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    if host.endswith(".sock") or "," in host:
        raise CannotListen(f"--host {host}: one address or name, not a socket path or a list")
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise CannotListen(f"--host {host}: {error}") from error
    family, _, _, _, address = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)[0]
    return family, address  # type: ignore[return-value]


def _reason(error: OSError, host: str, port: int, option: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is taken by another program:"
            f" stop it, or choose another with {option} (0: any free one)"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs privileges: choose one from 1024 on with {option}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine"
    return f"{host} port {port}: {error.strerror}"
