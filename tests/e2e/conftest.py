"""One gateway per way of serving, shared by the tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import speaking as dialects
from tests.support.gateway import SLOW, THREE_MODELS, Gateway, gateway
from tests.support.tiny_model import broken, vocabulary_only
from tests.support.tools_template import TOOLS_TEMPLATE

VARIANTS = {
    "uvicorn": {"server": "uvicorn", "workers": 1},
    "two-workers": {"server": "uvicorn", "workers": 2},
    "daphne": {"server": "daphne", "workers": 1},
}
EXTRA_PRESETS = f"""
from models_registry.models import Alias, ModelFile, Preset
from proxy.models import ApiKey
alpha = Preset.objects.get(name="alpha")
alpha.extra_options = {"chat-template = " + TOOLS_TEMPLATE!r}
alpha.full_clean()
alpha.save()
Alias.objects.create(name="first", preset=alpha)
Alias.objects.create(name="claude-*", preset=alpha)
Alias.objects.create(name="alpha:brief", preset=alpha, request_set={{"max_tokens": 2}})
Alias.objects.create(
    name="endless", preset=Preset.objects.get(name="slow"), request_set={{"ignore_eos": True}}
)
Preset.objects.create(
    name="vectors", model_file=alpha.model_file, embeddings=True, extra_options="pooling = mean",
    environment="GGML_TEST_VARIABLE=hush-hush",
)
robot = ApiKey.objects.get(name="robot")
robot.aliases = {{"alpha": "alpha:brief", "gpt-4o*": "alpha", "*": "beta"}}
robot.full_clean()
robot.save()
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is asked of each way of serving is a lane of its own (scripts/tests.py)."""
    for item in items:
        if "variant" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.each_server)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that fails on a shared gateway shows what that said of late."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, Gateway):
                report.sections.append((f"gateway `{name}`", "\n".join(value.output[-100:])))
    return report


@pytest.fixture(scope="package", params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> dict[str, object]:
    return VARIANTS[request.param]


@pytest.fixture(scope="package")
def mixed_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that are cut off, and some without weights."""
    folder = tmp_path_factory.mktemp("mixed")
    for number in range(1, 6):
        broken(folder, f"broken-{number}")
        vocabulary_only(folder, f"vocabulary-{number}")
    return folder


@pytest.fixture(scope="package")
def shared(
    variant: dict[str, object], mixed_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Three small models, a slow one, bad files, an alias and an embeddings preset, with room for
    two children and bodies of one MiB. Tests neither stop it nor change its presets."""
    folder = tmp_path_factory.mktemp("shared")
    models = {**THREE_MODELS, "slow": SLOW}
    env = {"CORRAL_MAX_BODY": str(1 << 20)}
    args = ["--models-max", "2", "--ollama-port", "0"]
    with gateway(
        folder, args=args, env=env, models=models, models_dir=mixed_models, **variant
    ) as running:
        running.django(EXTRA_PRESETS)
        yield running


@pytest.fixture(scope="package")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One that can do what the dialects can ask for: `alpha` calls tools, `thinks` thinks, `sees`
    sees; and the same is answered however it is asked."""
    folder = tmp_path_factory.mktemp("speaking")
    models_dir = folder / "models"
    dialects.place_models(models_dir)
    args = ["--models-max", "3"]
    with gateway(
        folder, args=args, models={"alpha": {"seed": 1}}, models_dir=models_dir
    ) as running:
        running.django(dialects.PRESETS)
        yield running
