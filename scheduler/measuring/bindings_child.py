"""What a model takes on the host, by the bindings and without its weights: a program of its own.

    python -I bindings_child.py '{"model": "/models/a.gguf", "options": {"ctx-size": "4096"}}'

prints `{"model": bytes, "context": bytes, "compute": bytes}`. For a llama-server that prints no
table. A failed assertion in the library ends the process that it lives in, so it never lives in one
of ours. Sizes come from the library's log: it has no call for them.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from collections.abc import Mapping
from typing import Any

MIB = 1 << 20

KNOWN = frozenset(
    {
        "model", "ctx-size", "parallel", "kv-unified", "batch-size", "ubatch-size", "cache-type-k",
        "cache-type-v", "flash-attn", "embeddings", "pooling", "swa-full", "load-mode", "fit",
        "fit-target", "fit-ctx", "n-gpu-layers",
    }
)  # fmt: skip
"""The options that it takes into account. With any other its figures were another preset's."""

_TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20,
    "bf16": 30,
}  # fmt: skip
_POOLING = {"none": 0, "mean": 1, "cls": 2, "last": 3, "rank": 4}
_FLASH = {"auto": -1, "off": 0, "on": 1}

_CACHE = re.compile(r"llama_(?:kv_cache|memory_recurrent)\w*: size = +([\d.]+) MiB")
_COMPUTE = re.compile(r"\w+: +(\S+) compute buffer size = +([\d.]+) MiB")


class CannotTell(Exception):
    """The library does not load the model so, or puts a part of it elsewhere."""


def sizes_in(log: str) -> tuple[int, int]:
    """(context, compute) in bytes. Raises CannotTell for a log that names another device."""
    compute: dict[str, float] = {}
    for device, mib in _COMPUTE.findall(log):
        compute[device] = float(mib)  # reserved again after flash attention was tried: the last
    elsewhere = [device for device in compute if not device.startswith("CPU")]
    if elsewhere:
        raise CannotTell(f"a part of it is on {', '.join(elsewhere)}")
    if not compute:
        raise CannotTell("the library does not say what it reserves")
    caches = sum(float(mib) for mib in _CACHE.findall(log))
    return round(caches * MIB), round(sum(compute.values()) * MIB)


def measured(path: str, options: Mapping[str, str]) -> dict[str, int]:
    import llama_cpp

    lines: list[str] = []

    @llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
    def listen(level: int, text: bytes, data: Any) -> None:
        lines.append(text.decode(errors="replace"))

    llama_cpp.llama_log_set(listen, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    wanted = llama_cpp.llama_model_default_params()
    wanted.no_alloc = True
    wanted.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE  # with mmap on it aborts
    model = llama_cpp.llama_model_load_from_file(path.encode(), wanted)
    if not model:
        raise CannotTell("".join(lines[-3:]).strip() or "the model is not loaded")
    params = _context_params(llama_cpp, options)
    context = llama_cpp.llama_init_from_model(model, params)
    if not context:
        raise CannotTell("".join(lines[-3:]).strip() or "no context is made")
    cache, compute = sizes_in("".join(lines))
    return {"model": llama_cpp.llama_model_size(model), "context": cache, "compute": compute}


def _context_params(llama_cpp: Any, options: Mapping[str, str]) -> Any:
    """As llama-server sets them from its own command line."""
    params = llama_cpp.llama_context_default_params()
    parallel = int(options.get("parallel", "1"))
    embeds = options.get("embeddings") == "true"
    params.n_ctx = int(options.get("ctx-size", "0"))
    params.n_seq_max = parallel
    params.n_batch = int(options.get("batch-size", "2048"))
    params.n_ubatch = int(options.get("ubatch-size", "512"))
    if embeds:
        params.n_batch = params.n_ubatch
    params.n_outputs_max = 0 if embeds else parallel
    params.kv_unified = options.get("kv-unified") == "true"
    params.swa_full = options.get("swa-full") == "true"
    params.embeddings = embeds
    params.type_k = _TYPES[options.get("cache-type-k", "f16")]
    params.type_v = _TYPES[options.get("cache-type-v", "f16")]
    params.flash_attn_type = _FLASH[options.get("flash-attn", "auto")]
    if "pooling" in options:
        params.pooling_type = _POOLING[options["pooling"]]
    return params


def main(argv: list[str]) -> int:
    asked = json.loads(argv[0])
    try:
        found = measured(asked["model"], asked["options"])
    except (CannotTell, KeyError, ValueError) as failure:
        print(f"bindings_child: error: {failure}", file=sys.stderr)
        return 1
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
