"""A chat template that knows tools, which SmolLM2's own does not: in the manner of Hermes."""

from __future__ import annotations

_LINES = r"""
{% if tools %}
{{ '<|im_start|>system\n<tools>' }}
{% for tool in tools %}{{ '\n' }}{{ tool | tojson }}{% endfor %}
{{ '\n</tools>\n<|im_end|>\n' }}
{% endif %}
{% for message in messages %}
{% if message.role == 'assistant' and message.tool_calls %}
{{ '<|im_start|>assistant\n' }}
{% if message.content %}{{ message.content }}{% endif %}
{% for call in message.tool_calls %}
{% if call.function %}{% set call = call.function %}{% endif %}
{{ '<tool_call>\n{"name": "' }}{{ call.name }}{{ '", "arguments": ' }}
{{ call.arguments | tojson }}{{ '}\n</tool_call>' }}
{% endfor %}
{{ '<|im_end|>\n' }}
{% elif message.role == 'tool' %}
{{ '<|im_start|>user\n<tool_response>\n' }}{{ message.content }}
{{ '\n</tool_response><|im_end|>\n' }}
{% else %}
{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{% endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""
TOOLS_TEMPLATE = _LINES.replace("\n", "")
"""On one line, as an option's value has to be."""
