"""What is counted, by name: the words and labels that docs/observability.md explains.

`gen_ai_server_…` are OpenTelemetry's names for a server of generative models, as Prometheus writes
them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    labels: tuple[str, ...]
    help: str


REQUESTS = "corral_requests_total"
TOKENS = "corral_tokens_total"
DURATION = "gen_ai_server_request_duration_seconds"
FIRST_TOKEN = "gen_ai_server_time_to_first_token_seconds"
PER_TOKEN = "gen_ai_server_time_per_output_token_seconds"
QUEUE_WAIT = "corral_queue_wait_seconds"
LOAD_WAIT = "corral_load_wait_seconds"

COUNTS = {
    REQUESTS: Family(
        ("model", "team", "outcome"),
        "Requests by what became of them: ok, or the code of the refusal or failure.",
    ),
    TOKENS: Family(
        ("model", "team", "kind"),
        "Tokens of answers: read from the prompt (cached ones included), cached, answered.",
    ),
    "corral_model_starts_total": Family(("model",), "Instances that were started."),
    "corral_model_ends_total": Family(
        ("model", "reason"), "Instances that have ended, by the reason."
    ),
    "corral_kv_saved_total": Family(
        ("model",), "Slots that were saved when their instance went (docs/kv-saves.md)."
    ),
    "corral_kv_saved_bytes_total": Family(("model",), "Bytes of them."),
    "corral_kv_restored_total": Family(("model",), "Slots that were filled from saves."),
    "corral_kv_hits_total": Family(("model",), "Requests that found what was restored for them."),
    "corral_kv_hit_tokens_total": Family(("model",), "Tokens that they did not have to read."),
    "corral_kv_spared_seconds_total": Family(
        ("model",), "What reading them would have taken, less what restoring them took."
    ),
    "corral_kv_saves_dropped_total": Family(
        ("model", "reason"), "Saves that were removed, by the reason."
    ),
}
SPREADS = {
    DURATION: Family(("model",), "From a request's arrival to the end of its answer."),
    FIRST_TOKEN: Family(("model",), "From a request's arrival to the first byte of its answer."),
    PER_TOKEN: Family(("model",), "Between two tokens of an answer, on its average."),
    QUEUE_WAIT: Family(("model",), "From asking for a model to a slot of it, of those who waited."),
    LOAD_WAIT: Family(("model",), "What of that wait went by while the model was loaded."),
    "corral_model_load_seconds": Family(("model",), "From an instance's start until it answers."),
}
