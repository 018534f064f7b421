"""Whatever a client sends, in whatever dialect: the model that another tenant uses is not loaded
anew, and goes no sooner. The scheduler is the real one (wiretap.py)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.endpoints import FORWARDED, OLLAMAS

from .wiretap import Shared, shared

HI = [{"role": "user", "content": "hi"}]
TOLD = {
    "acquire", "cancel", "release", "abandon", "detach", "keep", "load", "snapshot", "ping",
    "stream", "streams", "stop", "seen",
}  # fmt: skip
"""What a gateway may say for a client that manages nothing. `load` is queued like a request, and
of an instance that is there it only says so."""

EVERY_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 1 << 40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("a0-5mM{}", max_size=5),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from(["a", "num_ctx"]), st.integers(0, 9), max_size=1),
)
AT_ONCE = st.sampled_from([0, 0.0, -0.0, "0", "0s", "0ms", "-0s", 1e-9, "1ns"])
KEEP_ALIVE = st.one_of(
    AT_ONCE,
    st.sampled_from(
        [-1, 1, 300, 1e300, 10**400, "-1", "300", "5m", "-5m", "1h30m", "2400h", "", "soon"]
    ),
    EVERY_VALUE,
)
AT_LOAD = (
    "num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "draft_num_predict", "use_mmap",
    "use_mlock", "numa", "low_vram",
)  # fmt: skip
OF_A_LOAD = st.dictionaries(
    st.sampled_from(AT_LOAD),
    st.one_of(st.integers(-1, 1 << 20), st.booleans()),
    max_size=4,
)
OPTIONS = st.one_of(
    OF_A_LOAD,
    st.dictionaries(
        st.sampled_from([*AT_LOAD, "temperature", "top_k", "seed", "stop", "no_such_option"]),
        EVERY_VALUE,
        max_size=4,
    ),
    EVERY_VALUE,
)
EXTRA = st.dictionaries(
    st.sampled_from(
        [
            "truncate", "shift", "think", "raw", "template", "suffix", "context", "format",
            "system", "n_ctx", "n_gpu_layers", "cache_prompt", "n_cache_reuse", "id_slot", "lora",
            "timings", "reload", "autoload", "sleep", "force", "unload", "cache_control",
            "thinking", "store", "previous_response_id", "background", "metadata", "service_tier",
            "n", "max_tokens", "keep_alive", "options", "stream_options", "priority", "tenant",
            "preset",
        ]
    ),
    EVERY_VALUE,
    max_size=4,
)  # fmt: skip
ASKED = {
    "/api/embed": {"input": "hi"},
    "/api/embeddings": {"prompt": "hi"},
    "/v1/embeddings": {"input": "hi"},
}
"""What the body of a path holds besides messages and a prompt."""


@st.composite
def inferences(draw: st.DrawFn) -> tuple[str, str, Any, bytes]:
    """(method, path, body, query) of a request to a model."""
    path = draw(st.sampled_from([*OLLAMAS * 3, *FORWARDED]))
    nothing = path in OLLAMAS and draw(st.booleans())  # to load the model, or to let it go
    asked = {} if nothing else {"messages": HI, "prompt": "hi", **ASKED.get(path, {})}
    body = {"model": draw(st.sampled_from(["a", "a:latest"])), **asked, **draw(EXTRA)}
    for name, values in (("keep_alive", KEEP_ALIVE), ("options", OPTIONS), ("stream", EVERY_VALUE)):
        if draw(st.booleans()):
            body[name] = draw(values)
    query = draw(st.sampled_from([b"", b"autoload=false", b"autoload=1", b"beta=true", b"ts=1"]))
    return "POST", path, body, query


@st.composite
def lettings_go(draw: st.DrawFn) -> tuple[str, str, Any, bytes]:
    """What at Ollama ends a model, with an answer before it or with nothing but that."""
    path = draw(st.sampled_from(OLLAMAS))
    asked = draw(st.sampled_from([{}, {"messages": HI, "prompt": "hi", "input": "hi"}]))
    return "POST", path, {"model": "a", **asked, "keep_alive": draw(AT_ONCE)}, b""


NAMED = {"model": "a", "name": "a"}
# Not among them: POST /models/unload, which is there to end a model, for keys that may (scope load)
OTHERS = st.sampled_from(
    [
        *(
            ("GET", path, None, query)
            for path in ("/props", "/slots", "/metrics", "/lora-adapters")
            for query in (b"model=a", b"model=a&autoload=true", b"model=a&reload=1")
        ),
        ("POST", "/models/load", {**NAMED, "args": ["-c", "9"], "force": True}, b""),
        ("POST", "/props", NAMED, b"model=a"),
        ("POST", "/lora-adapters", NAMED, b"model=a"),
        ("POST", "/slots/0", NAMED, b"model=a&action=erase"),
        ("POST", "/models", NAMED, b""),
        ("DELETE", "/models", None, b"model=a"),
        ("DELETE", "/v1/stream", None, b"conv=a"),
        ("DELETE", "/api/delete", NAMED, b""),
        ("POST", "/api/create", {**NAMED, "from": "a", "parameters": {"num_ctx": 9}}, b""),
        ("POST", "/api/copy", {"source": "a", "destination": "a:latest"}, b""),
        ("POST", "/api/push", NAMED, b""),
    ]
)
REQUESTS = st.lists(st.one_of(lettings_go(), inferences(), OTHERS), min_size=1, max_size=6)
USES = st.sampled_from(
    [
        ("/v1/chat/completions", {}),
        ("/v1/messages", {"max_tokens": 9}),
        ("/api/chat", {}),
        ("/api/chat", {"keep_alive": "5m"}),
        ("/api/chat", {"keep_alive": -1}),
        ("/api/generate", {"keep_alive": 20}),
    ]
)


@pytest.mark.django_db(transaction=True)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REQUESTS, USES, st.sampled_from([None, -1.0, 60.0]), st.booleans())
def test_no_request_loads_a_model_anew_or_ends_it_sooner_for_another_tenant(
    requests: list[tuple[str, str, Any, bytes]],
    use: tuple[str, dict[str, Any]],
    keep_alive: float | None,
    busy: bool,
) -> None:
    async def story() -> None:
        async with shared(keep_alive) as at:
            path, wish = use
            await used(at, path, wish)
            before = at.kept_for
            holding = at.stage.ask("a", tenant="blue") if busy else None
            if holding is not None:
                await holding.run()
                before = max(before, at.kept_for)

            for method, path, body, query in requests:
                await at.asks("red", path, body, method=method, query=query).end()
                await at.settled()
                assert at.kept_for >= before, f"{method} {path} lets it go sooner"

            if holding is not None:
                holding.release()
                await at.settled()
                assert at.kept_for >= before
            assert at.stage.starts == ["a"]
            [child] = at.stage.children
            assert (child.asked, child.killed) == (0, 0)
            assert {told["op"] for told in at.said} <= TOLD

    asyncio.run(story())


async def used(at: Shared, path: str, wish: dict[str, Any]) -> None:
    """By the other tenant, which goes on to count on it."""
    body = {"model": "a", "messages": HI, "prompt": "hi", **wish}
    exchange = await at.asks("blue", path, body).end()
    assert exchange.status == 200
    await at.settled()


async def test_who_uses_a_model_alone_may_let_it_go() -> None:
    """What the property forbids is what happens without another tenant: it can fail."""
    async with shared() as at:
        await used(at, "/api/chat", {})
        await at.asks("blue", "/api/generate", {"model": "a", "keep_alive": 0}).end()
        await at.settled()

        [child] = at.stage.children
        assert child.asked == 1
