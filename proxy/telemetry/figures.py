"""What requests took, by OpenTelemetry's names for a server of generative models."""

from __future__ import annotations

from opentelemetry.metrics import Histogram, Meter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics as names
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE

from proxy.metrics.noting import seconds_per_token
from proxy.telemetry.operations import PROVIDER, operation_of
from proxy.usage.record import Record

# The conventions advise these ranges.
DURATIONS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
FIRST_TOKENS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)  # fmt: skip # noqa: E501
PER_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
TOKENS = tuple(4.0**power for power in range(14))


class Figures:
    def __init__(self, meter: Meter) -> None:
        def histogram(name: str, unit: str, words: str, ranges: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(
                name, unit, words, explicit_bucket_boundaries_advisory=ranges
            )

        self._duration = histogram(
            names.GEN_AI_SERVER_REQUEST_DURATION, "s", "Arrival to the answer's end.", DURATIONS
        )
        self._first = histogram(
            names.GEN_AI_SERVER_TIME_TO_FIRST_TOKEN, "s", "Arrival to its first byte.", FIRST_TOKENS
        )
        self._per_token = histogram(
            names.GEN_AI_SERVER_TIME_PER_OUTPUT_TOKEN, "s", "Between two tokens.", PER_TOKEN
        )
        self._tokens = histogram(
            names.GEN_AI_CLIENT_TOKEN_USAGE, "{token}", "Tokens of a request.", TOKENS
        )

    def tell(self, record: Record) -> None:
        """Models by their presets' names alone, which are bounded; a client's are not."""
        about = {
            gen_ai.GEN_AI_OPERATION_NAME: operation_of(record.path),
            gen_ai.GEN_AI_PROVIDER_NAME: PROVIDER,
            gen_ai.GEN_AI_REQUEST_MODEL: record.preset,
            gen_ai.GEN_AI_RESPONSE_MODEL: record.preset,
            "corral.team": record.team,
        }
        if code := record.code or (str(record.status) if record.status >= 400 else ""):
            about[ERROR_TYPE] = code
        for kept, seconds in (
            (self._duration, record.duration),
            (self._first, record.first_token),
            (self._per_token, seconds_per_token(record)),
        ):
            if seconds is not None:
                kept.record(seconds, about)
        for kind, tokens in (("input", record.read), ("output", record.answered)):
            if tokens:
                self._tokens.record(tokens, {**about, gen_ai.GEN_AI_TOKEN_TYPE: kind})
