"""The gateway's figures in Prometheus' form: /metrics."""
