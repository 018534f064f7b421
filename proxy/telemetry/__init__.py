"""Requests as spans and figures of OpenTelemetry."""
