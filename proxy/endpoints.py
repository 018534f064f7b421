"""Which endpoint a path is: llama.cpp's router and what its children speak, the same paths here.

docs/compatibility.md has a row for each, with what is better here and what is refused, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, auto

from proxy.dialects import Dialect, anthropic, llamacpp, ollama, openai
from scheduler.protocol import Refused


class Kind(StrEnum):
    """What answers."""

    FORWARD = auto()  # a child: the body names the model, and it counts as use
    LOOK = auto()  # a child, and it takes no slot and counts as no use (A8)
    CONTROL = auto()  # a child, by an answer under way: it takes no slot either
    MODELS = auto()
    MODEL = auto()
    EVENTS = auto()
    PROPS = auto()  # the gateway; with a model in the query that one's child
    METRICS = auto()  # so, too
    HEALTH = auto()
    READY = auto()
    FETCH = auto()  # the management of models, as llama.cpp has it
    REMOVE = auto()
    LOAD = auto()
    UNLOAD = auto()
    RESUME = auto()  # a conversation's stream
    STOP = auto()
    LOOKUP = auto()
    OLLAMA = auto()  # a child, to whom it is translated
    OLLAMA_SAYS = auto()  # the gateway, in Ollama's words
    OLLAMA_RUNS = auto()  # the same of what is loaded
    MANAGE = auto()  # what clients of Ollama change
    PULL = auto()  # likewise, but for what is there already


LOOKING = frozenset({Kind.LOOK, Kind.CONTROL})
CARRIED = frozenset({Kind.FORWARD, *LOOKING, Kind.OLLAMA})
"""What a child answers."""
METERED = frozenset({Kind.FORWARD, Kind.OLLAMA})
"""What a model works for: each such request is recorded."""
CONVERSING = frozenset({Kind.RESUME, Kind.STOP, Kind.LOOKUP})
MANAGING = frozenset({Kind.MANAGE, Kind.PULL})
APART = frozenset({*CARRIED, *CONVERSING, *MANAGING, Kind.EVENTS})
"""What is answered in another way than by one JSON document of the gateway's own."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`public` ones are answered without a key. A POST names its model in its JSON body, or where
    `forms` are taken in a multipart one; a GET in its query."""

    kind: Kind
    path: str
    methods: tuple[str, ...]
    dialect: Dialect
    public: bool = False
    forms: bool = False


class MethodNotAllowed(Refused):
    """The path is known, but not for this method."""

    def __init__(self, method: str, path: str, allowed: tuple[str, ...]) -> None:
        super().__init__(
            "method_not_allowed", f"{method} is not allowed on {path}: use {' or '.join(allowed)}."
        )
        self.allowed = allowed


def dialect_of(path: str) -> Dialect:
    if path == "/v1/messages" or path.startswith("/v1/messages/"):
        return anthropic.error_answer
    if path.startswith("/api/"):
        return ollama.error_answer
    return openai.error_answer if path.startswith("/v1") else llamacpp.error_answer


FORWARDED = (
    "/v1/chat/completions",
    "/chat/completions",
    "/v1/completions",
    "/completions",
    "/completion",
    "/v1/responses",
    "/responses",
    "/v1/messages",
    "/infill",
    "/v1/embeddings",
    "/embeddings",
    "/embedding",
    "/v1/rerank",
    "/v1/reranking",
    "/rerank",
    "/reranking",
    "/v1/systemone",
    # What is counted or put into words needs the model, if no slot of it
    "/v1/chat/completions/input_tokens",
    "/chat/completions/input_tokens",
    "/v1/responses/input_tokens",
    "/responses/input_tokens",
    "/v1/messages/count_tokens",
    "/tokenize",
    "/detokenize",
    "/apply-template",
)
RESUMABLE = frozenset(
    {
        "/v1/chat/completions",
        "/chat/completions",
        "/v1/completions",
        "/completions",
        "/completion",
        "/v1/responses",
        "/responses",
        "/v1/messages",
    }
)
"""Those whose streams llama-server keeps for a conversation."""
FORMS = ("/v1/audio/transcriptions", "/audio/transcriptions")
LOOKS = ("/slots", "/lora-adapters")
OLLAMAS = ("/api/chat", "/api/generate", "/api/embed", "/api/embeddings")
OLLAMA_SAYS = ("/api/version", "/api/status", "/api/tags")
BLOBS = "/api/blobs/"
MANAGED = (
    ("/api/create", "POST"),
    ("/api/copy", "POST"),
    ("/api/delete", "DELETE"),
)
CONTROLS = ("/v1/chat/completions/control",)

REFUSED: dict[tuple[str, str], str] = {
    ("POST", "/props"): "it would change the model for everybody",
    ("POST", "/lora-adapters"): "it would change the model for everybody",
    ("POST", "/slots/"): "it would write and read files, and other tenants' conversations",
    ("GET", "/tools"): "tools would run on this machine",
    ("POST", "/tools"): "tools would run on this machine",
    ("GET", "/cors-proxy"): "it would fetch what the client names, from inside this network",
    ("POST", "/cors-proxy"): "it would fetch what the client names, from inside this network",
    ("POST", "/api/push"): "it would publish a model of this machine's",
    ("POST", "/api/me"): "it would need an account with Ollama's cloud",
    ("POST", "/api/signout"): "it would need an account with Ollama's cloud",
    ("DELETE", "/api/user/keys/"): "it would need an account with Ollama's cloud",
    ("POST", "/api/experimental/web_search"): "it would search the web through Ollama's cloud",
    ("POST", "/api/experimental/web_fetch"): "it would fetch what the client names, from inside "
    "this network",
    ("GET", "/api/experimental/model-recommendations"): "it would recommend models of Ollama's "
    "cloud",
}
"""What llama.cpp or Ollama has and this gateway never will, and why. A path that ends with a slash
stands for all below it."""

SOCKETS = {"/v1/realtime": Kind.FORWARD, "/models/ws": Kind.EVENTS}
"""WebSockets; for them the address is not for HTTP."""


def _endpoint(
    kind: Kind,
    path: str,
    methods: tuple[str, ...] = ("GET", "HEAD"),
    *,
    public: bool = False,
    forms: bool = False,
) -> Endpoint:
    return Endpoint(kind, path, methods, dialect_of(path), public, forms)


def _endpoints() -> Iterator[Endpoint]:
    for path in FORWARDED:
        yield _endpoint(Kind.FORWARD, path, ("POST",))
    for path in FORMS:
        yield _endpoint(Kind.FORWARD, path, ("POST",), forms=True)
    for path in LOOKS:
        yield _endpoint(Kind.LOOK, path)
    for path in CONTROLS:
        yield _endpoint(Kind.CONTROL, path, ("POST",))
    yield _endpoint(Kind.MODELS, "/v1/models")
    yield _endpoint(Kind.MODELS, "/models")
    yield _endpoint(Kind.LOAD, "/models/load", ("POST",))
    yield _endpoint(Kind.UNLOAD, "/models/unload", ("POST",))
    yield _endpoint(Kind.EVENTS, "/models/sse", ("GET",))
    yield _endpoint(Kind.RESUME, "/v1/stream", ("GET",))
    yield _endpoint(Kind.LOOKUP, "/v1/streams/lookup", ("POST",))
    for path in OLLAMAS:
        yield _endpoint(Kind.OLLAMA, path, ("POST",))
    for path in OLLAMA_SAYS:
        yield _endpoint(Kind.OLLAMA_SAYS, path)
    yield _endpoint(Kind.OLLAMA_SAYS, "/api/show", ("POST",))
    yield _endpoint(Kind.OLLAMA_RUNS, "/api/ps")
    yield _endpoint(Kind.PULL, "/api/pull", ("POST",))
    for path, method in MANAGED:
        yield _endpoint(Kind.MANAGE, path, (method,))
    yield _endpoint(Kind.PROPS, "/props")
    yield _endpoint(Kind.METRICS, "/metrics")
    yield _endpoint(Kind.HEALTH, "/health", public=True)
    yield _endpoint(Kind.HEALTH, "/v1/health", public=True)
    yield _endpoint(Kind.READY, "/ready", public=True)


ENDPOINTS: dict[str, Endpoint] = {endpoint.path: endpoint for endpoint in _endpoints()}
PUBLIC = frozenset(path for path, endpoint in ENDPOINTS.items() if endpoint.public)
CHANGES: dict[tuple[str, str], Endpoint] = {
    ("POST", "/models"): _endpoint(Kind.FETCH, "/models", ("POST",)),
    ("DELETE", "/models"): _endpoint(Kind.REMOVE, "/models", ("DELETE",)),
    ("DELETE", "/v1/stream"): _endpoint(Kind.STOP, "/v1/stream", ("DELETE",)),
}
OF_MODEL = {path: _endpoint(Kind.LOOK, path) for path in ("/props", "/metrics")}
"""What is the gateway's own, unless a model is named."""

_REFUSED_PATHS = frozenset(path for _, path in REFUSED)
_BELOW = tuple(path for path in _REFUSED_PATHS if path.endswith("/"))


def is_known_path(path: str) -> bool:
    """Whether the gateway answers for it, if only to say why not."""
    return path in ENDPOINTS or path in SOCKETS or path in _REFUSED_PATHS or path.startswith(_BELOW)


def model_named(path: str) -> str:
    """The name in /models/{name}, which may hold slashes; empty for other paths."""
    if path in ENDPOINTS or path in SOCKETS:
        return ""
    beginning = "/v1/models/" if path.startswith("/v1/") else "/models/"
    return path.removeprefix(beginning) if path.startswith(beginning) else ""


def find_endpoint(path: str, method: str) -> Endpoint:
    """Raises Refused: `not_found`, `not_supported`, or MethodNotAllowed."""
    if (change := CHANGES.get((method, path))) is not None:
        return change
    endpoint = ENDPOINTS.get(path)
    if endpoint is None and model_named(path):
        endpoint = _endpoint(Kind.MODEL, path)
    if endpoint is None and path.startswith(BLOBS):
        endpoint = _endpoint(Kind.MANAGE, path, ("HEAD", "POST"))
    if endpoint is not None and method in endpoint.methods:
        return endpoint
    if (why := _refused(path, method)) is not None:
        raise Refused("not_supported", f"{method} {path} is not carried by this gateway: {why}.")
    if path in SOCKETS:
        raise Refused("upgrade_required", f"{path} is a WebSocket: open it with one (ws://).")
    if endpoint is None:
        raise Refused("not_found", f"There is no endpoint {method} {path} on this gateway.")
    changing = tuple(verb for verb, changed in CHANGES if changed == path)
    raise MethodNotAllowed(method, path, endpoint.methods + changing)


def _refused(path: str, method: str) -> str | None:
    below = next((each for each in _BELOW if path.startswith(each)), path)
    return REFUSED.get((method, below))
