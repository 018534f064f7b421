"""One gateway for all clients, with what they ask for: a model that calls tools, one that embeds,
one that goes on and on, and models to be pulled."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.gateway import SLOW, THREE_MODELS, Gateway, gateway, ollama_port
from tests.support.hub import downloads_from, hub
from tests.support.tiny_model import tiny_model
from tests.support.tools_template import TOOLS_TEMPLATE

PRESETS = f"""
from models_registry.models import Alias, Preset
def saved(**fields):
    preset = Preset(**fields)
    preset.full_clean()
    preset.save()
    return preset
alpha = Preset.objects.get(name="alpha")
alpha.extra_options = {"chat-template = " + TOOLS_TEMPLATE!r}
alpha.full_clean()
alpha.save()
file = alpha.model_file
saved(
    name="smollm2", model_file=file,
    extra_options=alpha.extra_options + chr(10) + "predict = 16",
)
saved(name="embedder", model_file=file, embeddings=True, extra_options="pooling = mean")
slow = Preset.objects.get(name="slow")
saved(name="endless", model_file=slow.model_file, request_defaults={{"ignore_eos": True}})
Alias.objects.create(name="caller", preset=alpha, request_set={{"tool_choice": "required"}})
Alias.objects.create(
    name="claude-*", preset=Preset.objects.get(name="smollm2"), request_set={{"max_tokens": 16}}
)
"""


@pytest.fixture(scope="package")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("clients")
    file = tiny_model(folder / "published", "tiny-Q8_0", seed=9)
    with hub() as found:
        found.ollama("library/tiny", "1b", {"model": file.read_bytes()})
        env = downloads_from(found, folder) | {"CORRAL_OLLAMA_REGISTRY": found.url}
        models = {**THREE_MODELS, "slow": SLOW}
        args = ["--ollama-port", "0", "--models-max", "3"]
        with gateway(folder, args=args, env=env, models=models) as running:
            running.django(PRESETS)
            yield running


@pytest.fixture(scope="package")
def environment(serving: Gateway) -> dict[str, str]:
    """Of a client's program: nothing of ours but where the gateway is, and with which key."""
    mine = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return mine | {
        "CORRAL_URL": serving.base_url,
        "CORRAL_OLLAMA": f"http://127.0.0.1:{ollama_port(serving)}",
        "CORRAL_KEY": serving.key,
        "CORRAL_ADMIN_KEY": serving.admin_key,
    }
