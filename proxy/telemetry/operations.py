"""What OpenTelemetry's conventions for generative models call a request's operation."""

from __future__ import annotations

PROVIDER = "llama_cpp"

_BY_LAST_WORD = {
    "chat": "chat",
    "completions": "text_completion",
    "completion": "text_completion",
    "infill": "text_completion",
    "generate": "text_completion",
    "responses": "chat",
    "messages": "chat",
    "realtime": "chat",
    "embeddings": "embeddings",
    "embedding": "embeddings",
    "embed": "embeddings",
    "reranking": "rerank",
}


def operation_of(path: str) -> str:
    """Of one of the gateway's own paths. What the conventions have no word for is called as its
    path ends: `tokenize`, `transcriptions`."""
    *_, before, last = path.split("/")
    if (before, last) == ("chat", "completions"):
        return "chat"
    return _BY_LAST_WORD.get(last, last)
