"""What is asked in every dialect, and presets that can answer it: with tools, with thoughts, with a
projector."""

from __future__ import annotations

import base64
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

from tests.support.tiny_model import tiny_model
from tests.support.tiny_projector import tiny_projector
from tests.support.tools_template import TOOLS_TEMPLATE

HELLO = {"role": "user", "content": "Hello"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
_THINKING = r"""
{% for message in messages %}
{{ '<|im_start|>' + message.role + '\n' }}
{% if message.role == 'assistant' and message.reasoning_content %}
{{ '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}
{% endif %}
{{ message.content + '<|im_end|>\n' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\n' }}
{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}
{% else %}{{ '<think>\n' }}{% endif %}
{% endif %}
"""
THINKING_TEMPLATE = _THINKING.replace("\n", "")
"""In the manner of Qwen 3: random weights think to the end of their answer."""

PRESETS = f"""
from models_registry.models import Alias, Preset
alpha = Preset.objects.get(name="alpha")
sees = Preset.objects.get(name="sees")
thinks = Preset(name="thinks", model_file=alpha.model_file)
for preset, template in (
    (alpha, {TOOLS_TEMPLATE!r}), (thinks, {THINKING_TEMPLATE!r}), (sees, {TOOLS_TEMPLATE!r})
):
    preset.extra_options = "chat-template = " + template + chr(10) + "cache-prompt = false"
    preset.request_defaults = {{"temperature": 0}}
    preset.full_clean()
    preset.save()
Alias.objects.create(name="caller", preset=alpha, request_set={{"tool_choice": "required"}})
"""
"""The same is answered however it is asked: greedily, and with nothing cached from before."""


def place_models(folder: Path) -> None:
    """A model with a projector, beside those that a gateway makes there."""
    sees = folder / "sees"
    sees.mkdir(parents=True)
    tiny_model(sees, "sees", seed=2)
    shutil.copy(tiny_projector(64), sees / "mmproj-F16.gguf")


def picture() -> str:
    """A PNG of eight by eight pixels, in base64."""
    rows = b"".join(b"\0" + bytes([30 * row, 100, 200]) * 8 for row in range(8))

    def chunk(name: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + check

    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()
