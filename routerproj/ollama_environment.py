"""Ollama's environment variables, as defaults where they mean something here.

They count below every name of ours and of llama.cpp's. What is wrong with one is told and the
variable ignored, as Ollama does: it may have been set for Ollama's sake alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proxy.ollama.keep_alive import EVER, keep_alive_of
from scheduler.protocol import Refused

PREFIX = "OLLAMA_"

_TRUE, _FALSE = ("1", "t", "true"), ("0", "f", "false")
_CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
_LEAST_CONTEXT = 256
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Defaults:
    """`variables` are ours by name; `lines` say what counts, what does not, and why."""

    variables: Mapping[str, str]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Rule:
    """`convert` gives the value, or None for what Ollama decides by itself; it raises ValueError.
    `above` are further names that count above it."""

    ours: tuple[str, ...]
    convert: Callable[[str], str | None]
    above: tuple[str, ...] = field(default=())


def ollama_defaults(environ: Mapping[str, str]) -> Defaults:
    """From the whole environment."""
    variables: dict[str, str] = {}
    lines: list[str] = []
    for name in sorted(name for name in environ if name.startswith(PREFIX)):
        text = environ[name].strip()
        if not text or name in _CLIENTS:
            continue
        rule = _RULES.get(name)
        if rule is None:
            why = _NOT_TAKEN.get(name, "Corral knows no such variable")
            lines.append(f"{name} does not count here: {why}")
            continue
        above = next((o for o in (*rule.ours, *rule.above) if environ.get(o, "").strip()), "")
        if above and environ[above].strip().lower() == "auto":
            continue  # which looks there
        if above:
            lines.append(f"{name} does not count: {above} is set, and stands above it")
            continue
        try:
            value = rule.convert(text)
        except ValueError as error:
            lines.append(f"{name}={text[:80]!r} is ignored: {error}")
            continue
        if value is not None:
            variables |= dict.fromkeys(rule.ours, value)
            told = " and ".join(f"{each}={value}" for each in rule.ours)
            lines.append(f"{name}={text[:80]} counts as {told}")
    return Defaults(variables, tuple(lines))


def _whole(least: int, why: str = "", *, automatic: bool) -> Callable[[str], str | None]:
    """`automatic`: 0 leaves it open."""

    def convert(text: str) -> str | None:
        wanted = f"a whole number from {least} to {_MOST} is wanted{why}"
        if not (text.isascii() and text.isdigit()) or len(text) > 10:
            raise ValueError(wanted)
        number = int(text)
        if number == 0 and automatic:
            return None
        if not least <= number <= _MOST:
            raise ValueError(wanted)
        return str(number)

    return convert


def _seconds(text: str) -> float:
    """EVER below 0."""
    try:
        seconds = keep_alive_of(text)
    except Refused:
        seconds = None
    if seconds is None:
        raise ValueError("a duration such as 5m is wanted, or a number of seconds")
    return seconds


def _keep_alive(text: str) -> str:
    seconds = _seconds(text)
    return "-1" if seconds == EVER else f"{seconds:.15g}"


def _stall(text: str) -> str:
    seconds = _seconds(text)
    if seconds < 1:
        raise ValueError("a load always has a limit here: at least 1s is wanted")
    return f"{seconds:.15g}"


def _origins(text: str) -> str:
    """Those that are whole: Ollama also takes `*` within one."""
    origins = [word.strip() for word in text.split(",")]
    taken = [each for each in origins if each and (each == "*" or "*" not in each)]
    if not taken:
        raise ValueError("only whole origins such as https://chat.example are taken, or * for all")
    return ",".join(taken)


def _switch(text: str) -> str:
    if text.lower() in _TRUE:
        return "on"
    if text.lower() in _FALSE:
        return "off"
    raise ValueError("1 or 0 is wanted")


def _cache_type(text: str) -> str:
    if text.lower() not in _CACHE_TYPES:
        raise ValueError(f"one of {', '.join(_CACHE_TYPES)} is wanted")
    return text.lower()


def _store(text: str) -> str:
    folder = Path(text).expanduser()
    if not any(place.is_dir() for place in (folder / "manifests", folder / "models" / "manifests")):
        raise ValueError("no store of Ollama's is there")
    return text


_RULES: Mapping[str, _Rule] = {
    "OLLAMA_KEEP_ALIVE": _Rule(("CORRAL_MODEL_KEEP_ALIVE",), _keep_alive),
    "OLLAMA_MAX_LOADED_MODELS": _Rule(
        ("CORRAL_MODELS_MAX",), _whole(1, automatic=True), ("LLAMA_ARG_MODELS_MAX",)
    ),
    "OLLAMA_NUM_PARALLEL": _Rule(("LLAMA_ARG_N_PARALLEL",), _whole(1, automatic=True)),
    "OLLAMA_CONTEXT_LENGTH": _Rule(
        ("CORRAL_CONTEXT_PER_SLOT",), _whole(_LEAST_CONTEXT, automatic=True)
    ),
    "OLLAMA_MAX_QUEUE": _Rule(
        ("CORRAL_QUEUE_LIMIT",), _whole(1, ": with 0 nothing could wait", automatic=False)
    ),
    "OLLAMA_LOAD_TIMEOUT": _Rule(("CORRAL_LOAD_STALL",), _stall),
    "OLLAMA_ORIGINS": _Rule(("CORRAL_CORS_ORIGINS",), _origins, ("LLAMA_ARG_CORS_ORIGINS",)),
    "OLLAMA_MODELS": _Rule(("CORRAL_OLLAMA_MODELS",), _store),
    "OLLAMA_FLASH_ATTENTION": _Rule(("LLAMA_ARG_FLASH_ATTN",), _switch),
    "OLLAMA_KV_CACHE_TYPE": _Rule(
        ("LLAMA_ARG_CACHE_TYPE_K", "LLAMA_ARG_CACHE_TYPE_V"), _cache_type
    ),
}

_NOT_TAKEN: Mapping[str, str] = {
    "OLLAMA_HOST": "it tells clients where to go, too; serve's --host and --ollama-port say where "
    "to listen",
    "OLLAMA_GPU_OVERHEAD": "CORRAL_MEMORY_MARGIN says in MiB what stays free on each device",
    "OLLAMA_SCHED_SPREAD": "a model goes on one device where it fits; its preset can say otherwise",
    "OLLAMA_MAX_TRANSFER_STREAMS": "CORRAL_DOWNLOADS says how many downloads run at once",
    "OLLAMA_NOPRUNE": "nothing is deleted unless somebody asks for it",
    "OLLAMA_LLM_LIBRARY": "CORRAL_LLAMA_SERVER says which engine runs",
    "OLLAMA_VULKAN": "CORRAL_LLAMA_SERVER says which engine runs",
    "OLLAMA_IGPU_ENABLE": "CORRAL_DEVICE_BUDGET says what may be used of each device",
    "OLLAMA_DEBUG": "CORRAL_LOG_LEVEL=DEBUG says more",
    "OLLAMA_DEBUG_LOG_REQUESTS": "what clients ask is not logged",
    "OLLAMA_NO_CLOUD": "no model runs elsewhere unless a preset says so",
    "OLLAMA_REMOTES": "a preset of the engine `upstream` names a remote server",
    "OLLAMA_GO_TEMPLATE": "the chat template in the GGUF counts",
}

_CLIENTS = frozenset({"OLLAMA_API_KEY", "OLLAMA_AUTH", "OLLAMA_NOHISTORY", "OLLAMA_EDITOR"})
"""For clients alone; one holds a secret."""
