"""GET /models tells what the registry and the scheduler know, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from models_registry.models import Alias, ModelFile, Preset, Source
from scheduler.protocol import Failure, InstanceState, QueueEntry, SnapshotState

from .asking import Exchange
from .fakes import Connection, Received

pytestmark = pytest.mark.django_db(transaction=True)


async def never_asked(received: Received, child: Connection) -> None:
    raise AssertionError("a list asks no child")


def instance(preset: str, state: str, **more: Any) -> InstanceState:
    fields: dict[str, Any] = {
        "leases": 0, "abandoned": 0, "parallel": 4, "pid": 7, "stale": False,
        "started_ago": 1.0, "used_ago": 1.0, **more,
    }  # fmt: skip
    return InstanceState(instance=1, preset=preset, state=state, **fields)


def snapshot(
    instances: list[InstanceState] | None = None,
    queue: list[QueueEntry] | None = None,
    failures: list[Failure] | None = None,
) -> SnapshotState:
    return SnapshotState(1, 1, 4, False, instances or [], queue or [], failures or [])


@pytest.fixture
def presets(tmp_path) -> None:
    path = tmp_path / "b.gguf"
    path.write_bytes(b"GGUF")
    file = ModelFile.objects.create(path=str(path), source=Source.MODELS_DIR)
    Preset.objects.create(name="b", model_file=file, source=Source.MODELS_DIR)
    gone = ModelFile.objects.create(path=str(tmp_path / "gone.gguf"))
    preset = Preset.objects.create(name="a", model_file=gone)
    Alias.objects.create(name="z-alias", preset=preset)
    Alias.objects.create(name="alias", preset=preset)


async def entries(house, live: SnapshotState, path: str = "/v1/models") -> dict[str, Any]:
    async with house(never_asked) as h:
        h.scheduler.live = live
        exchange = await Exchange(h.app, path, method="GET").end()
    assert exchange.status == 200
    assert exchange.json["object"] == "list"
    return {entry["id"]: entry for entry in exchange.json["data"]}


@pytest.mark.parametrize("path", ["/v1/models", "/models"])
async def test_presets_are_listed_by_name_with_their_aliases(house, presets, path):
    found = await entries(house, snapshot(), path)

    assert list(found) == ["a", "b"]
    assert found["a"]["aliases"] == ["alias", "z-alias"]
    b = found["b"]
    assert (b["object"], b["owned_by"], b["tags"], b["can_remove"]) == (
        "model", "llamacpp", [], False,
    )  # fmt: skip
    assert (found["a"]["source"], b["source"]) == ("preset", "models_dir")
    assert b["status"]["value"] == "unloaded"
    assert "failed" not in b["status"]
    assert "meta" not in b


async def test_the_time_of_creation_does_not_change_from_call_to_call(house, presets):
    first = await entries(house, snapshot())
    second = await entries(house, snapshot())

    assert first["b"]["created"] == second["b"]["created"] > 1_500_000_000


async def test_a_preset_whose_file_is_missing_says_so(house, presets):
    found = await entries(house, snapshot())

    assert found["a"]["status"]["failed"] is True
    assert "gone.gguf" in found["a"]["status"]["reason"]


@pytest.mark.parametrize(
    ("state", "value", "detail"),
    [
        ("loading", "loading", None),
        ("loaded", "loaded", None),
        ("sleeping", "sleeping", None),
        ("draining", "loaded", "draining"),
        ("stopping", "loaded", "stopping"),
    ],
)
async def test_a_running_preset_has_its_state_in_llama_cpps_words(
    house, presets, state, value, detail
):
    live = snapshot([instance("b", state, args=["llama-server", "-m", "x"])])

    status = (await entries(house, live))["b"]["status"]

    assert status["value"] == value
    assert status.get("detail") == detail
    assert status["args"] == ["llama-server", "-m", "x"]


async def test_a_loaded_preset_shows_what_its_child_reported(house, presets):
    reported = {
        "id": "b",
        "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
        "meta": {"n_ctx": 2048},
    }

    found = await entries(house, snapshot([instance("b", "loaded", meta=reported)]))

    assert found["b"]["meta"] == {"n_ctx": 2048}
    assert found["b"]["architecture"]["input_modalities"] == ["text"]


async def test_a_loading_preset_shows_its_progress(house, presets):
    found = await entries(house, snapshot([instance("b", "loading", progress=0.4)]))

    assert found["b"]["status"]["progress"] == {"value": 0.4}


async def test_of_two_instances_the_one_that_answers_is_shown(house, presets):
    live = snapshot([instance("b", "draining"), instance("b", "loaded")])

    assert "detail" not in (await entries(house, live))["b"]["status"]


async def test_a_preset_that_waits_for_room_is_queued(house, presets):
    found = await entries(house, snapshot(queue=[QueueEntry("b", 2, 1.0)]))

    assert found["b"]["status"]["value"] == "unloaded"
    assert found["b"]["status"]["detail"] == "queued"


@pytest.mark.parametrize(("code", "signal", "shown"), [(1, None, 1), (None, 9, 137)])
async def test_a_failed_load_shows_how_it_ended(house, presets, code, signal, shown):
    failure = Failure("b", "failed_to_load", code, signal, "bad magic", 1.0, 2.0)

    status = (await entries(house, snapshot(failures=[failure])))["b"]["status"]

    assert status["failed"] is True
    assert status["exit_code"] == shown
    assert status["reason"] == "failed_to_load: bad magic"


async def test_nothing_is_listed_when_the_scheduler_is_away(house, presets):
    async with house(never_asked) as h:
        h.scheduler.away = True
        listed = await Exchange(h.app, "/v1/models", method="GET").end()
        health = await Exchange(h.app, "/health", method="GET").end()
        ready = await Exchange(h.app, "/ready", method="GET").end()

    assert listed.status == 503
    assert listed.json["error"]["code"] == "scheduler_unavailable"
    assert (health.status, health.json) == (200, {"status": "ok"})
    assert ready.status == 503


async def test_it_is_ready_when_the_scheduler_answers(house):
    async with house(never_asked) as h:
        ready = await Exchange(h.app, "/ready", method="GET").end()

    assert ready.status == 200


async def test_clients_know_a_router_by_its_properties(house):
    async with house(never_asked, models_max=3) as h:
        props = await Exchange(h.app, "/props", method="GET").end()
        of_one = await Exchange(h.app, "/props", method="GET", query=b"model=b").end()

    assert props.json["role"] == "router"
    assert props.json["max_instances"] == 3
    assert of_one.status == 404


async def test_the_number_of_queries_does_not_grow_with_the_presets(
    presets, tmp_path, django_assert_max_num_queries
):
    from asgiref.sync import sync_to_async

    from proxy.listing import registered

    def count() -> None:
        file = ModelFile.objects.get(path=str(tmp_path / "b.gguf"))
        for number in range(20):
            Preset.objects.create(name=f"more-{number}", model_file=file)
        with django_assert_max_num_queries(4):
            assert len(registered()) == 22

    await sync_to_async(count)()
