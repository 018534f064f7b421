"""One gateway per way of serving, shared by the tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import SLOW, THREE_MODELS, Gateway, gateway
from tests.support.tiny_model import broken, vocabulary_only

VARIANTS = {
    "uvicorn": {"server": "uvicorn", "workers": 1},
    "two-workers": {"server": "uvicorn", "workers": 2},
    "daphne": {"server": "daphne", "workers": 1},
}
EXTRA_PRESETS = """
from models_registry.models import Alias, ModelFile, Preset
alpha = Preset.objects.get(name="alpha")
Alias.objects.create(name="first", preset=alpha)
Preset.objects.create(
    name="vectors", model_file=alpha.model_file, embeddings=True, extra_options="pooling = mean"
)
"""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """daphne is not asked for what only uvicorn can do: such a pair is no test."""
    impossible = [
        item
        for item in items
        if item.get_closest_marker("uvicorn_only")
        and getattr(item, "callspec", None)
        and item.callspec.params.get("variant") == "daphne"
    ]
    if impossible:
        config.hook.pytest_deselected(items=impossible)
        items[:] = [item for item in items if item not in impossible]


@pytest.fixture(scope="session", params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> dict[str, object]:
    return VARIANTS[request.param]


@pytest.fixture(scope="session")
def shared(
    variant: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Three small models, a slow one, two bad files, an alias and an embeddings preset, with room
    for two children. Tests neither stop it nor change its presets."""
    folder: Path = tmp_path_factory.mktemp("shared")
    broken(folder / "models")
    vocabulary_only(folder / "models")
    models = {**THREE_MODELS, "slow": SLOW}
    with gateway(folder, args=["--models-max", "2"], models=models, **variant) as running:
        running.django(EXTRA_PRESETS)
        yield running
