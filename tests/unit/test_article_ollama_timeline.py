"""The article on Ollama's scheduler: its timeline on a GPU of 16 GB, in virtual time.

Its models are as large as the exact formula says, not 7 GB each; docs/deviations.md tells what
else is not as it tells it.
"""

from __future__ import annotations

from scheduler.core.decisions import AskExit, Reason, Start
from scheduler.core.placing import need_of
from scheduler.core.sizes import FixedShape, Kind, Need, Placement
from scheduler.core.values import PresetSpec
from tests.support.article_models import GB, MODELS
from tests.unit.core.stage import Client, Stage
from tests.unit.test_article_ollama_memory import GPU, shape

LLAMA, QWEN = "Llama3-8B", "Qwen3-8B"
KEEP_ALIVE = 300.0


def whole(name: str) -> FixedShape:
    """On the GPU, at 2,048 tokens, as in the article."""
    found = shape(MODELS[name], 2048)
    need = need_of(found, Placement(Kind.WHOLE, ((GPU, len(found.layers)),)), 0)
    on_gpu = tuple((device, size) for device, size in need.own if device == GPU)
    return FixedShape(((2048, Need(on_gpu)),))


def timeline(**config) -> Stage:
    """Each loads in a second; A asks at 0, B at 3, C at 6."""
    presets = [PresetSpec(name, fixed=whole(name)) for name in (LLAMA, QWEN)]
    stage = Stage(*presets, load_seconds=1.0, capacity={GPU: 16 * GB}, models_max=0, **config)
    stage.comes(0.0, Client(LLAMA, seconds=2.0, tenant="A", again=False))
    stage.comes(3.0, Client(QWEN, seconds=1.0, tenant="B", again=False))
    stage.comes(6.0, Client(LLAMA, seconds=2.0, tenant="C", again=False))
    return stage


def test_each_is_loaded_once_and_the_second_beside_the_first():
    stage = timeline(keep_alive_seconds=KEEP_ALIVE)
    stage.run(9.0)

    starts = [(at, start.preset.name) for at, start in stage.when(Start)]
    assert starts == [(0.0, LLAMA), (3.0, QWEN)]
    assert not stage.when(AskExit)
    assert sum(size for s in (whole(LLAMA), whole(QWEN)) for _, size in s.sizes[0][1].own) < 10 * GB


def test_each_is_answered_when_its_model_is_ready_and_who_reuses_one_at_once():
    stage = timeline(keep_alive_seconds=KEEP_ALIVE)
    stage.run(9.0)

    granted = {asked.client.tenant: asked.granted for asked in stage.asked.values()}
    assert granted == {"A": 1.0, "B": 4.0, "C": 6.0}


def test_the_second_ends_when_it_was_idle_for_five_minutes_not_at_nine_seconds():
    stage = timeline(keep_alive_seconds=KEEP_ALIVE)
    stage.run(400.0)

    ends = [(at, exit.instance, exit.reason) for at, exit in stage.when(AskExit)]
    assert ends == [(5.0 + KEEP_ALIVE, 2, Reason.IDLE), (8.0 + KEEP_ALIVE, 1, Reason.IDLE)]


def test_by_default_both_stay():
    stage = timeline()
    stage.run(3600.0)

    assert not stage.when(AskExit)
