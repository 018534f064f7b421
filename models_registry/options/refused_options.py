"""Engine options that nobody may set, in a preset or on `serve`'s command line, and why.

Who may edit a preset may run a model, not read the machine's files, open listeners or run tools.
The list names options by any of their spellings; families and shapes catch what later engine
versions may add, so that an option nobody has looked at is refused rather than let through.
"""

from __future__ import annotations

import re
from enum import StrEnum

from models_registry.options.catalogue import Kind, Option


class Reason(StrEnum):
    """Completes the sentence "refused because …"."""

    LISTENS = "it would let the child listen elsewhere, or answer others than Corral"
    FILES = "it would let the child read or write other files"
    TOOLS = "it would let the child run tools"
    NETWORK = "it would let the child use the network"
    ROUTER = "it belongs to the router, which is Corral here"
    CORRAL = "it is set by Corral"
    OWN_FIELD = "it has a field of its own"
    EXITS = "it would make the child print something and exit"
    PAIR = "it takes two values, which Corral does not carry"


REFUSED: dict[str, Reason] = {
    # Where and whom it answers
    "host": Reason.LISTENS,
    "port": Reason.LISTENS,
    "reuse-port": Reason.LISTENS,
    "api-prefix": Reason.LISTENS,
    "api-key": Reason.LISTENS,
    "api-key-file": Reason.FILES,
    "ssl-key-file": Reason.FILES,
    "ssl-cert-file": Reason.FILES,
    "cors-origins": Reason.LISTENS,
    "cors-methods": Reason.LISTENS,
    "cors-headers": Reason.LISTENS,
    "cors-credentials": Reason.LISTENS,
    "props": Reason.LISTENS,  # POST /props changes the model for everybody
    "path": Reason.FILES,
    "webui": Reason.CORRAL,
    "webui-config": Reason.CORRAL,
    "webui-config-file": Reason.FILES,
    # Programs
    "webui-mcp-proxy": Reason.TOOLS,
    "tools": Reason.TOOLS,
    "tools-runtime": Reason.TOOLS,
    "mcp-servers-config": Reason.TOOLS,
    "mcp-servers-json": Reason.TOOLS,
    "agent": Reason.TOOLS,
    "video-ffmpeg-dir": Reason.TOOLS,
    # The network
    "rpc": Reason.NETWORK,
    "model-url": Reason.NETWORK,
    "mmproj-url": Reason.NETWORK,
    "docker-repo": Reason.NETWORK,
    "hf-repo": Reason.NETWORK,
    "hf-file": Reason.NETWORK,
    "hf-token": Reason.NETWORK,
    "hf-repo-draft": Reason.NETWORK,
    # Files
    "model": Reason.OWN_FIELD,
    "mmproj": Reason.OWN_FIELD,
    "model-draft": Reason.OWN_FIELD,
    "lora": Reason.FILES,
    "lora-scaled": Reason.FILES,
    "lora-init-without-apply": Reason.FILES,
    "control-vector": Reason.FILES,
    "control-vector-scaled": Reason.FILES,
    "control-vector-layer-range": Reason.FILES,
    "grammar-file": Reason.FILES,
    "json-schema-file": Reason.FILES,
    "chat-template-file": Reason.FILES,
    "lookup-cache-static": Reason.FILES,
    "lookup-cache-dynamic": Reason.FILES,
    "slot-save-path": Reason.FILES,
    "media-path": Reason.FILES,
    "log-file": Reason.FILES,
    "log-prompts-dir": Reason.FILES,
    # llama.cpp's router
    "models-dir": Reason.ROUTER,
    "models-preset": Reason.ROUTER,
    "models-max": Reason.ROUTER,
    "models-autoload": Reason.ROUTER,
    # What Corral sets, or reads
    "alias": Reason.CORRAL,
    "offline": Reason.CORRAL,
    "log-colors": Reason.CORRAL,
    "log-disable": Reason.CORRAL,  # the last words of a failed load are in the log
    "log-jsonl": Reason.CORRAL,
    "slots": Reason.CORRAL,  # /slots tells when an abandoned answer has ended
    # It would not serve
    "usage": Reason.EXITS,
    "version": Reason.EXITS,
    "cache-list": Reason.EXITS,
    "completion-bash": Reason.EXITS,
    "list-devices": Reason.EXITS,
}

_FAMILIES: dict[str, Reason] = {
    r"ssl-|api-key|api-prefix|cors-|host$|port$": Reason.LISTENS,
    r"tools|mcp-|agent|ui-|webui": Reason.TOOLS,
    r"models-": Reason.ROUTER,
    r"hf-|docker-|rpc|.*-url$": Reason.NETWORK,
    r"lora|control-vector|lookup-cache|log-file|.*-(file|path|dir|config)$": Reason.FILES,
}

OPERATORS = frozenset({"rpc"})
"""What may stand in the environment or on serve's command line, and in no preset: of these the
machine has one list, as it has one set of devices."""

_SERVE = "Corral's own is an option of `manage.py serve`"
_FETCH = "fetch it under Downloads, and choose it as the preset's model file"

REMEDIES: dict[str, str] = {
    "host": _SERVE,
    "port": _SERVE,
    "api-key": _SERVE,
    "cors-origins": _SERVE,
    "models-dir": _SERVE,
    "models-max": _SERVE,
    "models-autoload": _SERVE,
    "model": "choose the preset's model file (on the command line: -m before anything else)",
    "mmproj": "set the projector on the model file's page",
    "model-draft": "set the draft model on the model file's page",
    "alias": "add the name under Aliases on the preset's page",
    "offline": "downloads go through Corral, and children run offline",
    "slots": "it is always on",
    "webui": "the child's own page is always off",
    "hf-repo": _FETCH,
    "hf-file": _FETCH,
    "model-url": _FETCH,
    "hf-token": "set HF_TOKEN in the environment of `manage.py serve`",
    "rpc": "name the machine's RPC servers in LLAMA_ARG_RPC, or on serve's command line",
}

PRESET_FIELDS: dict[str, str] = {
    "load-on-startup": "Load on startup",
    "stop-timeout": "Stop timeout",
    "priority": "Priority",
    "max-wait": "Max wait",
    "queue-limit": "Queue limit",
    "min-residency": "Min residency",
    "keep-alive": "Keep alive",
    "sleep-idle": "Sleep when idle",
    "readiness-probe": "Readiness probe",
    "placement": "Placement",
    "context-cap": "Context cap",
    "replicas": "Replicas",
    "pinned": "Pinned",
    "unlisted": "Unlisted",
    "tags": "Tags",
}
"""llama.cpp's preset-only keys that are columns here, and Corral's own: no options of the child."""

_FILE_HINT = re.compile(r"FNAME|FILE|PATH|\bDIR|FOLDER|URL|SERVERS|<repo>|<user>", re.IGNORECASE)
_FETCHES = re.compile(r"download weights", re.IGNORECASE)


def refusal(option: Option) -> Reason | None:
    """Why `option` may not be set; None when it may."""
    for name in option.names:
        if name in REFUSED:
            return REFUSED[name]
    for name in option.names:
        for family, reason in _FAMILIES.items():
            if re.match(family, name):
                return reason
    if _FILE_HINT.search(option.hint):
        return Reason.FILES
    if _FETCHES.search(option.help):
        return Reason.NETWORK
    return Reason.PAIR if option.kind is Kind.PAIR else None


def refusal_message(option: Option) -> str:
    """The sentence for people; empty when `option` may be set."""
    reason = refusal(option)
    if reason is None:
        return ""
    remedy = REMEDIES.get(option.key, "remove it")
    return f"refused because {reason}: {remedy}"
