"""What is pasted into each client. Pure.

docs/clients has a page for each; its examples are run by tests.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Client:
    """`where` is a file or a place in the client's settings, empty for a program or a shell."""

    name: str
    text: str
    where: str = ""

    @property
    def id(self) -> str:
        return "client-" + "-".join(self.name.lower().replace("'", "").split())


def clients(base: str, key: str, model: str) -> list[Client]:
    """`base` is the gateway's address without a path, as the reader's browser has it."""
    quoted = json.dumps(model, ensure_ascii=False)
    return [*_written(base, key, quoted), *_set_up(base, key, model, quoted)]


def _written(base: str, key: str, quoted: str) -> list[Client]:
    """In a shell or a program of one's own. `quoted` is the model, in quotes."""
    return [
        Client(
            "curl",
            f"""curl -sSf '{base}/v1/chat/completions' \\
  -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\
  --data-binary @- <<'JSON'
{{"model": {quoted}, "messages": [{{"role": "user", "content": "Name three animals."}}]}}
JSON""",
        ),
        Client(
            "OpenAI SDK Python",
            f"""from openai import OpenAI

client = OpenAI(base_url="{base}/v1", api_key="{key}")
answer = client.chat.completions.create(
    model={quoted},
    messages=[{{"role": "user", "content": "Name three animals."}}],
)
print(answer.choices[0].message.content)""",
        ),
        Client(
            "OpenAI SDK JavaScript",
            f"""import OpenAI from "openai";

const client = new OpenAI({{ baseURL: "{base}/v1", apiKey: "{key}" }});
const answer = await client.chat.completions.create({{
  model: {quoted},
  messages: [{{ role: "user", content: "Name three animals." }}],
}});
console.log(answer.choices[0].message.content);""",
        ),
    ]


def _set_up(base: str, key: str, model: str, quoted: str) -> list[Client]:
    """Programs that are there, and how they are told."""
    return [
        Client(
            "Open WebUI",
            f"""OPENAI_API_BASE_URL={base}/v1
OPENAI_API_KEY={key}
ENABLE_OLLAMA_API=false""",
            "Admin Panel, Settings, Connections; or the environment of its container",
        ),
        Client(
            "Continue",
            f"""name: Corral
version: 1.0.0
schema: v1
models:
  - name: {quoted}
    provider: openai
    model: {quoted}
    apiBase: {base}/v1
    apiKey: {key}
    roles: [chat, edit, apply]""",
            "~/.continue/config.yaml",
        ),
        Client(
            "Claude Code",
            f"""export ANTHROPIC_BASE_URL={base}
export ANTHROPIC_AUTH_TOKEN={key}
export ANTHROPIC_MODEL={_in_shell(model)}
export ANTHROPIC_DEFAULT_HAIKU_MODEL={_in_shell(model)}
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
claude""",
        ),
        Client(
            "Ollama clients",
            f"""export OLLAMA_HOST={base}
export OLLAMA_API_KEY={key}
python3 - <<'PYTHON'
import ollama
answer = ollama.chat({quoted}, [{{"role": "user", "content": "Name three animals."}}])
print(answer.message.content)
PYTHON""",
        ),
    ]


def _in_shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
