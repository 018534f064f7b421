"""The gateway's configuration: a frozen value built once from the settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.conf import settings

from scheduler.protocol import TimeLimits


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """Everything that carrying requests depends on. Sizes in bytes, times in seconds."""

    control_socket: Path
    temp_folder: Path
    usage_folder: Path
    secret_key: str
    no_auth: bool = False
    api_keys: tuple[str, ...] = ()
    models_autoload: bool = True
    models_max: int = 4
    max_body: int = 128 << 20
    max_upload: int = 64 << 30
    retry_body: int = 8 << 20
    body_memory: int = 256 << 20
    spool_limit: int = 16 << 30
    body_timeout_seconds: float = 30.0
    connect_timeout_seconds: float = 5.0
    first_byte_timeout_seconds: float = 600.0
    between_tokens_timeout_seconds: float = 300.0
    answer_timeout_seconds: float = 3600.0
    slow_reader_timeout_seconds: float = 60.0
    reconnect_wait_seconds: float = 30.0
    upstream_proxy: str = ""
    media_hosts: tuple[str, ...] = ()
    usage_journal: int = 1 << 30
    usage_ask: bool = True
    telemetry: frozenset[str] = frozenset()
    trust_trace_context: bool = False
    redacted: tuple[str, ...] = ()
    websockets_of_team: int = 256
    websocket_message: int = 4 << 20
    websocket_idle_seconds: float = 300.0
    websocket_quiet_seconds: float = 5.0
    websocket_seconds: float = 3600.0

    def within(self, limits: TimeLimits | None) -> ProxyConfig:
        """With the limits that a preset has of its own."""
        if limits is None:
            return self
        own: dict[str, Any] = {
            "connect_timeout_seconds": limits.connect,
            "first_byte_timeout_seconds": limits.first_byte,
            "between_tokens_timeout_seconds": limits.idle,
            "answer_timeout_seconds": limits.answer,
        }
        return replace(self, **{name: value for name, value in own.items() if value is not None})


def proxy_config() -> ProxyConfig:
    return ProxyConfig(
        control_socket=settings.CORRAL_CONTROL_SOCKET,
        temp_folder=settings.CORRAL_VAR / "tmp",
        usage_folder=usage_folder(),
        secret_key=settings.SECRET_KEY,
        no_auth=settings.CORRAL_NO_AUTH,
        api_keys=tuple(settings.CORRAL_API_KEYS),
        models_autoload=settings.CORRAL_MODELS_AUTOLOAD,
        models_max=max(0, settings.CORRAL_MODELS_MAX),
        max_body=settings.CORRAL_MAX_BODY,
        max_upload=settings.CORRAL_MAX_UPLOAD,
        retry_body=settings.CORRAL_RETRY_BODY,
        body_memory=settings.CORRAL_BODY_MEMORY,
        spool_limit=settings.CORRAL_SPOOL_LIMIT,
        body_timeout_seconds=settings.CORRAL_BODY_TIMEOUT,
        connect_timeout_seconds=settings.CORRAL_CONNECT_TIMEOUT,
        first_byte_timeout_seconds=settings.CORRAL_FIRST_BYTE_TIMEOUT,
        between_tokens_timeout_seconds=settings.CORRAL_BETWEEN_TOKENS_TIMEOUT,
        answer_timeout_seconds=settings.CORRAL_ANSWER_TIMEOUT,
        slow_reader_timeout_seconds=settings.CORRAL_SLOW_READER_TIMEOUT,
        reconnect_wait_seconds=settings.CORRAL_RECONNECT_WAIT,
        upstream_proxy=settings.CORRAL_UPSTREAM_PROXY,
        media_hosts=tuple(settings.CORRAL_MEDIA_HOSTS),
        usage_journal=settings.CORRAL_USAGE_JOURNAL,
        usage_ask=settings.CORRAL_USAGE_ASK,
        telemetry=settings.CORRAL_TELEMETRY,
        trust_trace_context=settings.CORRAL_TRUST_TRACE_CONTEXT,
        redacted=settings.CORRAL_CONTENT_REDACT,
        websockets_of_team=max(1, settings.CORRAL_WEBSOCKETS // 2),
        websocket_message=settings.CORRAL_WEBSOCKET_MESSAGE,
        websocket_idle_seconds=settings.CORRAL_WEBSOCKET_IDLE,
        websocket_quiet_seconds=settings.CORRAL_WEBSOCKET_QUIET,
        websocket_seconds=settings.CORRAL_WEBSOCKET_TIMEOUT,
    )


def usage_folder() -> Path:
    """Where web processes keep their journals until they are brought in."""
    return Path(settings.CORRAL_VAR) / "usage"
