"""What values of single options the engine does not start with, or nobody means: measured with the
engine itself, as its help says little of it. Pure.
"""

from __future__ import annotations

import json
import re

MOST_THREADS = 4096
MOST_LAYERS = 1000
_NGRAMS = ("ngram-mod-n-match", "ngram-simple-size-n", "ngram-simple-size-m", "ngram-map-k-size-n",
           "ngram-map-k-size-m", "ngram-map-k4v-size-n", "ngram-map-k4v-size-m")  # fmt: skip

RANGES = {
    "parallel": (1, 256),
    "ctx-size": (2, 1 << 24),
    "main-gpu": (-1, 255),
    "batch-size": (2, 1 << 20),
    "ubatch-size": (1, 1 << 20),
    "sleep-idle-seconds": (1, 2**31 - 1),
    "prio": (-1, 3),
    "mirostat": (0, 2),
    "reasoning-budget": (-1, 2**31 - 1),
    "checkpoint-min-step": (0, 2**31 - 1),
    "spec-draft-n-max": (0, 2**31 - 1),
    "spec-ngram-mod-n-min": (0, 1024),
    "spec-ngram-mod-n-max": (0, 1024),
    **{
        f"threads{of}": (-1, MOST_THREADS)
        for of in ("", "-batch", "-draft", "-batch-draft", "-http")
    },
    **{f"prio-{of}": (0, 3) for of in ("batch", "draft", "batch-draft")},
    **{f"n-cpu-{of}": (0, MOST_LAYERS) for of in ("moe", "ffn", "moe-draft")},
    **{f"spec-{ngram}": (1, 1024) for ngram in _NGRAMS},
    **{f"spec-ngram-{of}-min-hits": (1, 2**31 - 1) for of in ("simple", "map-k", "map-k4v")},
}
"""What nobody means is a slip of the finger. The engine itself starts with no more than 256 slots,
and takes any context until its memory is not there; -1 is no GPU. It does not start with a sleep
after 0 seconds, nor with a batch or a context of one token."""

AUTO = {"ctx-size": 0, "parallel": -1, "sleep-idle-seconds": -1}
"""Beyond the range, and yet taken: the engine's word for its own choice, or for never."""

LAST_TOKENS = frozenset({"repeat-last-n", "dry-penalty-last-n"})
MOST_LAST_TOKENS = 1 << 24
"""Of these -1 is the whole context in engines whose help says so, and no start in others."""

POSITIVE = frozenset({"repeat-penalty", "spec-synth-len"})

_MASK = (re.compile(r"(0[xX])?[0-9a-fA-F]+"), "a mask in hexadecimal digits, ff or 0xff")
_CPUS = (re.compile(r"[0-9]{0,3}-[0-9]{0,3}"), "a range of CPUs, 0-3")
_SHARE = r"\s*(?:[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})"
_SHARES = (
    re.compile(rf"{_SHARE}(?:[,/]{_SHARE}){{0,15}}\s*"),
    "up to 16 numbers with commas between them, 3,1",
)
"""The engine has room for 16 devices."""
_OVERRIDES = (
    re.compile(r"[^=,]+=[^,]*[^=,\s](?:,[^=,]+=[^,]*[^=,\s])*"),
    r"patterns of tensors' names, each with where they go: blk\.[0-3]\..*=CPU",
)
FORMS = {
    "override-tensor": _OVERRIDES,
    "override-tensor-draft": _OVERRIDES,
    "tensor-split": _SHARES,
    "spec-synth-rates": (
        re.compile(rf"{_SHARE}(?:,{_SHARE})*\s*"),
        "probabilities with commas between them, 0.8,0.5",
    ),
    "fit-target": (
        re.compile(r"\s*[0-9]{1,9}\s*(?:,\s*[0-9]{1,9}\s*){0,15}"),
        "up to 16 numbers of MiB with commas between them, 1024,512",
    ),
    "override-kv": (
        re.compile(r"[^=]+=(?:(?:int|float|str):|bool:(?:true|false)).*"),
        "KEY=TYPE:VALUE, of the types int, float, bool and str: "
        "tokenizer.ggml.add_bos_token=bool:false",
    ),
    "logit-bias": (
        re.compile(r"\s*[0-9]{1,9}\s*[+-].+"),
        "a token's number, + or - and how much: 15043+1",
    ),
    "grammar": (re.compile(r"(?s:.*)::=(?s:.*)"), 'rules of a grammar: root ::= "yes" | "no"'),
    "cpu-mask": _MASK,
    "cpu-mask-batch": _MASK,
    "cpu-mask-draft": _MASK,
    "cpu-mask-batch-draft": _MASK,
    "cpu-range": _CPUS,
    "cpu-range-batch": _CPUS,
    "cpu-range-draft": _CPUS,
}
"""Texts that the engine reads further, and does not start with when it cannot."""

PATTERNS = frozenset(key for key, form in FORMS.items() if form is _OVERRIDES)
"""Whose values hold patterns of tensors' names."""

JSON = {"json-schema": "a JSON object", "chat-template-kwargs": "JSON"}


def text_problem(key: str, hint: str, text: str) -> str:
    """What the option takes instead of this text; empty when the engine can read it."""
    if key in FORMS:
        form, words = FORMS[key]
        return "" if form.fullmatch(text) else words
    if key in JSON:
        return "" if _is_json(text, an_object=key == "json-schema") else JSON[key]
    if key == "spec-type" and "," in hint:
        known = {word.strip() for word in hint.split(",")}
        if not known.issuperset(text.split(",")):
            return f"one or several, with commas between them, of {', '.join(sorted(known))}"
    return ""


def _is_json(text: str, *, an_object: bool) -> bool:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(read, dict) or not an_object
