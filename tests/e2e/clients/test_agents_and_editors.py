"""Requests of the kinds that agents, editors and chat pages are known to send, in their order.

None is started here: they are large. What Claude Code 2.1, Codex 0.171, Continue's `cn` 1.5 and
opencode 1.18 send was seen; the others' forms are those of their documentation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.asking import Answer, Client
from tests.support.gateway import Gateway, ollama_port

pytestmark = [pytest.mark.engine, pytest.mark.slow]

Check = Callable[[Answer], Any]
HELLO = {"role": "user", "content": "Hello"}
COMMAND = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
    "additionalProperties": False,
    "$schema": "http://json-schema.org/draft-07/schema#",
}


@dataclass(frozen=True)
class Ask:
    """One request, and what its client looks for in the answer."""

    path: str
    body: Any = None
    check: Check = lambda answer: answer.status == 200
    method: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def of(self, client: Client) -> Answer:
        method = self.method or ("GET" if self.body is None else "POST")
        return client.request(method, self.path, self.body, headers=self.headers)


# What is looked for -------------------------------------------------------------------


def is_there(answer: Answer) -> bool:
    """Anything that is no error: a redirection counts."""
    return answer.status < 400


def tells(*path: str | int) -> Check:
    """Something stands there."""

    def check(answer: Answer) -> Any:
        told = answer.json
        for step in path if answer.status == 200 else ():
            told = told[step]
        return answer.status == 200 and told

    return check


def events(answer: Answer) -> list[dict[str, Any]]:
    lines = [line[6:] for line in answer.body.splitlines() if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def streams_chat(answer: Answer) -> bool:
    """To a finish reason, its usage, and [DONE]."""
    reasons = [choice["finish_reason"] for each in events(answer) for choice in each["choices"]]
    ends = answer.body.rstrip().endswith(b"data: [DONE]")
    return bool(reasons[-1]) and ends and bool(events(answer)[-1].get("usage"))


def streams_message(answer: Answer) -> bool:
    kinds = [each["type"] for each in events(answer)]
    return (kinds[0], *kinds[-2:]) == ("message_start", "message_delta", "message_stop")


def streams_response(answer: Answer) -> bool:
    kinds = [each["type"] for each in events(answer)]
    return (kinds[0], kinds[-1]) == ("response.created", "response.completed")


def streams_lines(answer: Answer) -> bool:
    return bool(json.loads(answer.body.splitlines()[-1])["done"])


def is_recent(answer: Answer) -> bool:
    """VS Code compares numbers."""
    return tuple(map(int, answer.json["version"].split("."))) >= (0, 6, 4)


# Agents -------------------------------------------------------------------------------

CLAUDE_HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,effort-2025-11-24,"
    "context-management-2025-06-27,prompt-caching-scope-2026-01-05",
    "anthropic-dangerous-direct-browser-access": "true",
    "User-Agent": "claude-cli/2.1.197 (external, sdk-cli)",
    "x-app": "cli",
    "X-Stainless-Lang": "js",
    "X-Stainless-Retry-Count": "0",
    "X-Stainless-Timeout": "600",
}
KEPT = {"cache_control": {"type": "ephemeral"}}
CLAUDE = {
    "model": "claude-sonnet-4-6",
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197; cch=a5145;"},
        {"type": "text", "text": "You are an agent.", **KEPT},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Which files are here?", **KEPT}]}
    ],
    "tools": [
        {"name": "Bash", "description": "Runs a command.", "input_schema": COMMAND},
        {"name": "Read", "description": "Reads a file.", "input_schema": COMMAND, **KEPT},
    ],
    "metadata": {"user_id": json.dumps({"device_id": "a", "session_id": "b"})},
    "max_tokens": 32_000,
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
    "stream": True,
}
USED = [
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": [{"type": "text", "text": "a.py"}],
                "is_error": False,
                **KEPT,
            }
        ],
    },
]
CLAUDE_CODE = [
    Ask("/", method="HEAD", check=is_there, headers={"User-Agent": "Bun/1.4.0"}),
    Ask("/v1/messages?beta=true", CLAUDE, streams_message, headers=CLAUDE_HEADERS),
    Ask(
        "/v1/messages?beta=true",
        {**CLAUDE, "messages": [*CLAUDE["messages"], *USED]},
        streams_message,
        headers=CLAUDE_HEADERS,
    ),
    Ask(
        "/v1/messages/count_tokens?beta=true",
        {name: CLAUDE[name] for name in ("model", "messages", "tools")},
        tells("input_tokens"),
        headers=CLAUDE_HEADERS,
    ),
    Ask(  # a name for the session, which it goes without
        "/v1/messages?beta=true",
        {
            "model": "claude-haiku-4-5",
            "messages": [HELLO],
            "max_tokens": 512,
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        },
        lambda answer: (
            answer.status == 400 and answer.json["error"]["type"] == "invalid_request_error"
        ),
        headers=CLAUDE_HEADERS,
    ),
]

CODEX_TOOLS = [
    {
        "type": "function",
        "name": "exec_command",
        "description": "Runs a command.",
        "strict": False,
        "parameters": COMMAND,
    },
    {
        "type": "custom",
        "name": "apply_patch",
        "description": "Edits files.",
        "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'},
    },
    {"type": "namespace", "name": "multi_agent_v1", "description": "Others.", "tools": []},
    {"type": "web_search", "external_web_access": False},
]
CODEX_SAID = [
    {
        "type": "message",
        "role": role,
        "content": [{"type": "input_text", "text": "Which files are here?"}],
    }
    for role in ("developer", "user")
]
CODEX_USED = [
    {
        "type": "function_call",
        "name": "exec_command",
        "arguments": '{"command": "ls"}',
        "call_id": "call_1",
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "a.py"},
]
CODEX_ASKED = {
    "model": "smollm2",
    "input": CODEX_SAID,
    "tools": CODEX_TOOLS,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "b",
    "text": {"verbosity": "low"},
    "client_metadata": {"x-codex-installation-id": "a"},
}
CODEX_HEADERS = {"originator": "codex_exec", "Accept": "text/event-stream", "session_id": "b"}
CODEX = [
    Ask("/v1/responses", CODEX_ASKED, streams_response, headers=CODEX_HEADERS),
    Ask(
        "/v1/responses",
        {**CODEX_ASKED, "input": [*CODEX_SAID, *CODEX_USED]},
        streams_response,
        headers=CODEX_HEADERS,
    ),
]
AIDER = [
    Ask(
        "/v1/chat/completions",
        {"model": "smollm2", "messages": [HELLO], "stream": True, "temperature": 0,
         "stream_options": {"include_usage": True}},
        streams_chat,
    ),
    Ask("/api/show", {"name": "smollm2"}, tells("model_info", "llama.context_length")),
    Ask(
        "/api/chat",
        {"model": "smollm2", "messages": [HELLO], "stream": True,
         "options": {"temperature": 0, "num_ctx": 11_232}},
        streams_lines,
    ),
]  # fmt: skip

# Editors and chat pages ---------------------------------------------------------------------

CLINE = [
    Ask(
        "/v1/chat/completions",
        {"model": "smollm2", "temperature": 0, "stream": True,
         "messages": [{"role": "system", "content": "Be brief."},
                      {"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
         "stream_options": {"include_usage": True}},
        streams_chat,
    ),
    Ask("/api/tags", check=tells("models", 0, "name")),
]  # fmt: skip
CONTINUE = [
    Ask("/api/show", {"name": "smollm2"}, tells("template")),
    Ask(
        "/api/chat",
        {"model": "smollm2", "messages": [HELLO], "keep_alive": 1800, "stream": True,
         "options": {"num_ctx": 8192, "num_predict": 64, "stop": ["<|x|>"], "num_gpu": None}},
        streams_lines,
    ),
    Ask(
        "/api/generate",
        {"model": "smollm2", "prompt": "def f(", "raw": True, "keep_alive": 1800, "stream": True,
         "options": {"num_ctx": 8192, "num_predict": 8, "temperature": 0.01}},
        streams_lines,
    ),
    Ask("/api/embed", {"model": "embedder", "input": ["one", "two"]}, tells("embeddings", 1, 0)),
    Ask("/v1/completions", {"model": "smollm2", "prompt": "def f(", "suffix": "", "stream": False,
                            "max_tokens": 8, "stop": ["\n\n"]}, tells("choices", 0)),
    Ask("/v1/embeddings", {"model": "embedder", "input": ["one"]}, tells("data", 0, "embedding")),
]  # fmt: skip
ZED = [
    Ask("/api/tags", check=tells("models", 0, "details", "format")),
    Ask("/api/show", {"model": "smollm2"}, tells("capabilities", 0)),
    Ask(
        "/api/chat",
        {"model": "smollm2", "messages": [HELLO], "stream": True, "keep_alive": -1,
         "options": {"num_ctx": 4096, "stop": [], "temperature": 1.0}, "think": None, "tools": []},
        streams_lines,
    ),
]  # fmt: skip
VS_CODE = [
    Ask("/api/version", check=is_recent),
    Ask("/api/tags", check=tells("models", 0, "model")),
    Ask(
        "/api/show",
        {"model": "alpha:latest"},
        lambda answer: answer.json["model_info"]["general.basename"] == "alpha:latest"
        and "tools" in answer.json["capabilities"],
        headers={"User-Agent": "GitHubCopilotChat/0.31.0"},
    ),
    Ask(
        "/v1/chat/completions",
        {"model": "alpha:latest", "messages": [HELLO], "stream": True, "max_tokens": 8,
         "stream_options": {"include_usage": True}, "n": 1, "top_p": 1},
        streams_chat,
    ),
]  # fmt: skip
PERSON = {
    "X-OpenWebUI-User-Name": "Ann%20Other",
    "X-OpenWebUI-User-Id": "7c0e",
    "X-OpenWebUI-User-Email": "ann@example.org",
    "X-OpenWebUI-User-Role": "user",
    "X-OpenWebUI-Chat-Id": "9f1d",
}
OPEN_WEBUI = [
    Ask("/v1/models", check=tells("data", 0, "id"), headers=PERSON),
    Ask(
        "/v1/chat/completions",
        {"model": "smollm2", "messages": [HELLO], "stream": True,
         "stream_options": {"include_usage": True}},
        streams_chat,
        headers=PERSON,
    ),
    Ask("/api/version", check=is_recent),
    Ask("/api/tags", check=tells("models", 0, "modified_at")),
    Ask("/api/ps", check=lambda answer: answer.json["models"] is not None),
    Ask("/api/show", {"model": "smollm2:latest"}, tells("details")),
    Ask(
        "/api/chat",
        {"model": "smollm2:latest", "messages": [HELLO], "options": {}, "stream": True},
        streams_lines,
        headers=PERSON,
    ),
    Ask("/api/embed", {"model": "embedder:latest", "input": ["one"]}, tells("embeddings", 0, 0)),
    Ask("/api/generate", {"model": "smollm2:latest", "keep_alive": 0, "prompt": ""}, streams_lines),
]  # fmt: skip


@pytest.fixture
def on_ollamas_port(serving: Gateway) -> Client:
    return Client(ollama_port(serving), serving.key)


CLIENTS = {
    "claude-code": CLAUDE_CODE, "codex": CODEX, "aider": AIDER, "cline": CLINE,
    "continue": CONTINUE, "zed": ZED, "vs-code": VS_CODE, "open-webui": OPEN_WEBUI,
}  # fmt: skip


@pytest.mark.parametrize("client", CLIENTS)
def test_it_gets_what_it_looks_for(serving: Gateway, on_ollamas_port: Client, client: str) -> None:
    for ask in CLIENTS[client]:
        asked = on_ollamas_port if ask.path.startswith("/api/") else serving.client
        answer = ask.of(asked)

        assert ask.check(answer), f"{ask.path}: {answer.status} {answer.body[:2000]!r}"
