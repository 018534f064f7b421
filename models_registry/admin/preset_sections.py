"""The sections of a preset's form, with what is said of each."""

from __future__ import annotations

from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy


def _section(
    title: str | Promise | None,
    fields: list[str | tuple[str, ...]],
    told: str | Promise = "",
) -> tuple[str | Promise | None, Any]:
    return title, {"fields": fields, "description": told}


SECTIONS: list[Any] = [
    _section(
        gettext_lazy("General"),
        ["name", "model_file", ("base", "group"), ("tags", "unlisted")],
        gettext_lazy(
            "A field left empty is decided by the layers below, and says by which: the "
            "presets file, "
            "the base, the global preset, the engine's environment, or the engine's own default."
        ),
    ),
    _section(
        gettext_lazy("Engine"),
        [
            "engine",
            "command_line",
            ("health_path", "declared_memory"),
            ("upstream_url", "upstream_model"),
            "new_upstream_key",
            "forget_upstream_key",
        ],
        gettext_lazy(
            "Who answers: llama.cpp's own server, unless another one is wanted. Command line, "
            "health "
            "path and declared memory are for a server of your own, URL, model and key for a "
            "remote "
            "one. A change counts at the next load; of a remote server at the next request."
        ),
    ),
    _section(
        gettext_lazy("Memory and placement"),
        [
            ("ctx_size", "parallel"),
            ("cache_type_k", "cache_type_v"),
            ("n_gpu_layers", "placement"),
            ("context_cap", "replicas"),
        ],
        gettext_lazy(
            "While context or GPU layers are unset, Corral chooses by what was measured: how "
            "large the "
            "context is, and where the model goes. Slots that are set divide the context "
            "equally; left "
            "unset, four share all of it. A change counts at the next load."
        ),
    ),
    _section(
        gettext_lazy("Speed"),
        [("batch_size", "ubatch_size"), ("threads", "flash_attn"), "embeddings"],
        gettext_lazy("A change counts at the next load."),
    ),
    _section(
        gettext_lazy("Policy"),
        [
            ("pinned", "load_on_startup"),
            ("priority", "max_wait"),
            ("min_residency", "queue_limit"),
            ("keep_alive", "sleep_idle"),
            ("stop_timeout", "readiness_probe"),
            ("connect_timeout", "first_byte_timeout"),
            ("idle_timeout", "answer_timeout"),
        ],
        gettext_lazy(
            "How it stands beside the others: who waits, who stays, who goes. A change counts "
            "at once, "
            "without a new load; that of sleeping, which the engine does, at the next load."
        ),
    ),
    _section(
        gettext_lazy("Requests"),
        ["request_strip", ("request_defaults", "request_set")],
        gettext_lazy(
            "What is changed in the body of a request before the model reads it: first "
            "parameters are "
            "stripped, then defaults fill what is not there, then values are set. The "
            "parameters model "
            "and stream stay as the client wrote them."
        ),
    ),
    _section(
        gettext_lazy("Environment"),
        ["environment"],
        gettext_lazy("A change counts at the next load."),
    ),
    _section(
        gettext_lazy("Other options"),
        ["extra_options"],
        gettext_lazy("A change counts at the next load."),
    ),
]


def sections(*, masked: bool) -> list[Any]:
    """With `masked`, what holds secrets is not edited, and shows none."""
    if not masked:
        return SECTIONS
    return [
        (title, {**section, "fields": list(filter(None, map(_masked, section["fields"])))})
        for title, section in SECTIONS
    ]


def _masked(field: Any) -> Any:
    """What stands there for who may not edit it; None: nothing."""
    return _MASKED.get(field, field)


_MASKED = {
    "environment": "environment_shown",
    "new_upstream_key": "upstream_key_shown",
    "forget_upstream_key": None,
}
