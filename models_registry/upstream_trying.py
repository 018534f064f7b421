"""Does the remote server of a preset answer, and does it know the model? One question, for a person
who waits for the answer; nothing is kept of it."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from models_registry import kept_secrets
from models_registry.engines import EngineKind
from models_registry.errors import ManagementRefused
from models_registry.launch import launch_spec_of
from models_registry.models import Preset
from models_registry.remote_addresses import address_at, why_not

SECONDS = 10.0
LONGEST_LIST = 4 << 20
"""Bytes of its list of models that are read."""
NAMED = 5


def tried(preset: Preset) -> str:
    """What it says, after the preset's name. Raises ManagementRefused when it does not answer as
    it should; that says why."""
    spec = launch_spec_of(preset)
    if spec.engine.kind != EngineKind.UPSTREAM:
        raise _refused(preset, spec.problem or "it runs here: load it")
    if settings.CORRAL_UPSTREAM_PROXY:
        raise _refused(preset, "it is reached by a proxy, which this does not ask: send a request")
    url = address_at(spec.engine.url, "/v1/models")
    try:
        status, body = _asked(url, kept_secrets.read(spec.engine.key))
    except (OSError, http.client.HTTPException) as error:
        raise _refused(preset, f"{url} does not answer: {_words(error)}") from error
    if status in (401, 403):
        raise _refused(preset, f"{url} does not take the key ({status}): write another one")
    if status == 404:
        return f"has a server that answers; it has no list of models at {url}: send it a request"
    if status != 200:
        raise _refused(preset, f"{url} answers with status {status}: is this the API's beginning?")
    return _of_the_list(body, spec.engine.model)


def _asked(url: str, key: str) -> tuple[int, bytes]:
    """Redirects are not followed. Raises OSError, HTTPException."""
    parts = urlsplit(url)
    host, tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    try:
        connected = _connected(host, port)
        connection.sock = connected
        if tls:
            context = ssl.create_default_context()
            connection.sock = context.wrap_socket(connected, server_hostname=host)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        connection.request("GET", parts.path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(LONGEST_LIST)
    finally:
        connection.close()


def _connected(host: str, port: int) -> socket.socket:
    """To an address that was looked at, not to what the name means a moment later."""
    problem = OSError("it has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        if why := why_not(str(address[0])):
            problem = OSError(f"{address[0]} {why}")
            continue
        made = socket.socket(family, kind, protocol)
        made.settimeout(SECONDS)
        try:
            made.connect(address)
            return made
        except OSError as error:
            made.close()
            problem = error
    raise problem


def _of_the_list(body: bytes, model: str) -> str:
    names = _names(body)
    if model in names:
        return f"has a server that answers, and knows {model}."
    if not names:
        return "has a server that answers; what models it has, it does not say."
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if names[NAMED:] else "")
    return f"has a server that answers, and lists no {model}; it lists {shown}."


def _names(body: bytes) -> list[str]:
    """Empty for what is no such list."""
    try:
        told: Any = json.loads(body)
        return [str(each["id"]) for each in told["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _refused(preset: Preset, why: str) -> ManagementRefused:
    return ManagementRefused("preset_invalid", f"{preset.name}: {why}.")
