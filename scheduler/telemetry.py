"""OpenTelemetry, where the environment names a place to send it to: which signals are wanted, and
how a process sends them.

Nothing of its libraries is imported before that is so: they take 20 MB of each process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.otlp import Telemetry

TRACES, METRICS = "traces", "metrics"
PROTOCOL = "http/protobuf"
_EVERY = "OTEL_EXPORTER_OTLP_ENDPOINT"


def signals_wanted(environment: Mapping[str, str]) -> frozenset[str]:
    """By the standard's own variables; empty when nothing is to be sent."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return frozenset()
    return frozenset(signal for signal in (TRACES, METRICS) if _is_wanted(environment, signal))


def _is_wanted(environment: Mapping[str, str], signal: str) -> bool:
    own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"
    off = environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip().lower() == "none"
    return not off and any(environment.get(name, "").strip() for name in (own, _EVERY))


def other_protocols(environment: Mapping[str, str]) -> list[str]:
    """What the environment asks for and is not spoken here, as NAME=VALUE."""
    names = (
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        *(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL" for signal in (TRACES, METRICS)),
    )
    said = {name: environment.get(name, "").strip() for name in names}
    return [f"{name}={value}" for name, value in said.items() if value not in ("", PROTOCOL)]


def telemetry_of(process: str, signals: Collection[str]) -> Telemetry | None:
    """Of this process, by whose name it is known; None where nothing is wanted."""
    if not signals:
        return None
    from scheduler.otlp import Telemetry

    return Telemetry(process, signals)


def ids_of(team: str, request: str) -> tuple[int, int]:
    """The trace of a request, and the span that is all of it: whoever knows the request's id finds
    them, in any process. Requests to which a client gives the same id share a trace."""
    digest = hashlib.sha256(f"{team}\0{request}".encode()).digest()
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:24]) or 1
