"""GET /models tells what the registry and the scheduler know, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from models_registry.indexing import index_files
from models_registry.models import Alias, FileMetadata, ModelFile, Preset, Source
from proxy.callers import Caller
from proxy.offered import Offer
from scheduler.protocol import Failure, InstanceState, QueueEntry, SnapshotState
from tests.support.tiny_model import real_model

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


async def test_every_entry_has_an_architecture_whether_its_header_was_read_or_not(house, presets):
    found = await entries(house, snapshot([]))

    text = {"input_modalities": ["text"], "output_modalities": ["text"]}
    assert all(entry["architecture"] == text for entry in found.values())


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


async def test_what_runs_elsewhere_is_loaded_until_it_is_left_alone(house, presets):
    await sync_to_async(Preset.objects.create)(
        name="far", engine="upstream", upstream_url="https://far.example/v1"
    )
    left = Failure("far", "upstream_unavailable", None, None, "nobody listens there", 1.0, 2.0)

    idle = (await entries(house, snapshot()))["far"]
    waited_for = (await entries(house, snapshot(queue=[QueueEntry("far", 2, 1.0)])))["far"]
    alone = (await entries(house, snapshot(failures=[left])))["far"]

    assert idle["status"] == waited_for["status"] == {"value": "loaded", "args": []}
    assert "meta" not in idle
    assert alone["status"] == {
        "value": "unloaded",
        "args": [],
        "failed": True,
        "reason": "upstream_unavailable: nobody listens there",
    }


async def test_nothing_is_listed_when_the_scheduler_is_away(house, presets):
    async with house(never_asked) as h:
        h.scheduler.away = True
        listed = await Exchange(h.app, "/v1/models", method="GET").end()
        health = await Exchange(h.app, "/health", method="GET").end()
        other = await Exchange(h.app, "/v1/health", method="GET").end()
        ready = await Exchange(h.app, "/ready", method="GET").end()

    assert listed.status == 503
    assert listed.json["error"]["code"] == "scheduler_unavailable"
    assert (health.status, health.json["status"]) == (200, "ok")
    assert (other.status, other.json["status"]) == (200, "ok")
    assert ready.status == 503


async def test_it_is_ready_when_the_scheduler_answers(house):
    async with house(never_asked) as h:
        ready = await Exchange(h.app, "/ready", method="GET").end()

    assert ready.status == 200


@pytest.mark.parametrize(("answers", "status"), [(True, 200), (False, 503)])
async def test_it_is_ready_when_the_database_says_who_may_ask(house, answers, status):
    class Keys:
        async def answers(self) -> bool:
            return answers

        async def close(self) -> None: ...

    async with house(never_asked, keys=Keys()) as h:
        ready = await Exchange(h.app, "/ready", method="GET").end()

    assert ready.status == status


async def test_clients_know_a_router_by_its_properties(house):
    async with house(never_asked, models_max=3) as h:
        props = await Exchange(h.app, "/props", method="GET").end()

    assert props.json["role"] == "router"
    assert props.json["max_instances"] == 3


@pytest.mark.parametrize("more", [0, 20])
async def test_the_number_of_queries_does_not_grow_with_the_presets(
    presets, tmp_path, django_assert_num_queries, more
):
    def count() -> None:
        file = ModelFile.objects.get(path=str(tmp_path / "b.gguf"))
        for number in range(more):
            Preset.objects.create(name=f"more-{number}", model_file=file)
        offer = Offer()
        with django_assert_num_queries(9):
            assert len(offer.presets()) == 2 + more
        with django_assert_num_queries(3):
            assert len(offer.presets()) == 2 + more

    await sync_to_async(count)()


async def test_what_changed_is_seen_at_the_next_look(presets, tmp_path):
    def look() -> None:
        offer = Offer()
        offer.presets()
        (tmp_path / "b.gguf").unlink()
        assert "b.gguf" in offer.presets()[1].problem
        FileMetadata.objects.create(
            model_file=ModelFile.objects.get(path=str(tmp_path / "gone.gguf")), parameters=7
        )
        assert offer.presets()[0].entry["meta"] == {"n_params": 7}
        Preset.objects.get(name="b").delete()
        assert [each.name for each in offer.presets()] == ["a"]

    await sync_to_async(look)()


async def test_an_unloaded_preset_shows_what_its_header_says(house, tmp_path):
    def make() -> None:
        path = tmp_path / "c.gguf"
        path.symlink_to(real_model())
        file = ModelFile.objects.create(path=str(path), source=Source.CACHE)
        Preset.objects.create(name="user/c:Q4_1", model_file=file, source=Source.CACHE, tags="b, a")
        index_files()

    await sync_to_async(make)()

    found = (await entries(house, snapshot()))["user/c:Q4_1"]

    assert found["meta"] == {  # tests/runtime/test_child_lines.py: the engine says the same
        "vocab_type": 2, "n_vocab": 49152, "n_ctx_train": 8192, "n_embd": 576,
        "n_params": 134515008, "size": 96576768, "ftype": "Q4_1",
    }  # fmt: skip
    assert found["architecture"] == {"input_modalities": ["text"], "output_modalities": ["text"]}
    assert (found["source"], found["can_remove"], found["tags"]) == ("cache", True, ["a", "b"])


async def test_the_effective_preset_is_shown_as_ini(house, presets):
    await Preset.objects.filter(name="b").aupdate(ctx_size=4096, extra_options="no-warmup = true")

    status = (await entries(house, snapshot()))["b"]["status"]

    lines = status["preset"].splitlines()
    assert lines[:2] == ["[b]", f"model = {status['args'][1]}"]
    assert {"ctx-size = 4096", "warmup = false"} <= set(lines)


@pytest.mark.parametrize("path", ["/v1/models/", "/models/"])
async def test_one_model_is_asked_for_by_its_name_or_an_alias(house, presets, path):
    async with house(never_asked) as h:
        h.scheduler.live = snapshot([instance("b", "loaded")])
        loaded = await Exchange(h.app, f"{path}b", method="GET").end()
        by_alias = await Exchange(h.app, f"{path}z-alias", method="GET").end()

    assert (loaded.status, loaded.json["status"]["value"]) == (200, "loaded")
    assert (by_alias.status, by_alias.json["id"]) == (200, "a")


async def test_a_name_may_hold_slashes(house, presets):
    await Preset.objects.filter(name="b").aupdate(name="user/repo:Q4")

    async with house(never_asked) as h:
        found = await Exchange(h.app, "/v1/models/user/repo:Q4", method="GET").end()

    assert found.json["id"] == "user/repo:Q4"


@pytest.mark.parametrize(("path", "status"), [("/v1/models/none", 404), ("/models/none", 400)])
async def test_a_model_that_is_not_there_is_refused_in_the_dialect(house, presets, path, status):
    async with house(never_asked) as h:
        found = await Exchange(h.app, path, method="GET").end()
        posted = await Exchange(h.app, path, method="POST", body=b"{}").end()

    assert found.status == status
    assert "'none'" in found.json["error"]["message"]
    assert posted.status == 405


async def test_an_unlisted_preset_is_found_only_by_its_name(house, presets):
    await Preset.objects.filter(name="b").aupdate(unlisted=True)

    assert list(await entries(house, snapshot())) == ["a"]
    async with house(never_asked) as h:
        found = await Exchange(h.app, "/models/b", method="GET").end()
    assert found.json["id"] == "b"


async def test_one_model_is_told_by_each_name_that_a_request_could_have(house, presets):
    def more() -> None:
        b = Preset.objects.get(name="b")
        Alias.objects.create(name="gpt-4*", preset=b)

    await sync_to_async(more)()
    async with house(never_asked) as h:
        paths = ("alias", "gpt-4o/mini", "gpt-3")
        told = [await Exchange(h.app, f"/models/{name}", method="GET").end() for name in paths]
        listed = await Exchange(h.app, "/models", method="GET").end()

    assert [(each.status, each.json.get("id")) for each in told] == [
        (200, "a"), (200, "b"), (400, None),
    ]  # fmt: skip
    assert [entry["aliases"] for entry in listed.json["data"]] == [["alias", "z-alias"], ["gpt-4*"]]


async def test_a_keys_own_alias_shows_its_model(house, presets):
    class Keys:
        def as_known(self, caller: Caller) -> Caller:
            return caller

        async def identify(self, headers: object, by_session: object = None) -> Caller:
            return Caller("blue", aliases={"gpt-4*": "b", "a": "b"})

        async def close(self) -> None:
            pass

    async with house(never_asked, keys=Keys()) as h:
        told = [
            await Exchange(h.app, f"/models/{name}", method="GET").end()
            for name in ("gpt-4o", "a", "alias")
        ]

    assert [each.json["id"] for each in told] == ["b", "b", "a"]
