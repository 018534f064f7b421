"""A conversation whose model had to make way goes on where it was, in a fresh process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.asking import CHAT, chat_body
from tests.support.gateway import KEY, Gateway, gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]

Message = dict[str, str]


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Room for one child. All but `beta` have the same weights; of `plain` nothing is saved,
    `sleepy` falls asleep, and `wide` has two slots."""
    folder: Path = tmp_path_factory.mktemp("kv-saves")
    same = {"seed": 1}
    models = {
        "alpha": same,
        "twin": same,
        "plain": same,
        "sleepy": same,
        "wide": same,
        "beta": {"seed": 2},
    }
    with gateway(folder, args=["--models-max", "1"], models=models) as running:
        running.django(
            "from models_registry.models import Preset\n"
            "for name, fields in {\n"
            "    'plain': {'extra_options': 'kv-saves = off'}, 'sleepy': {'sleep_idle': 1},\n"
            "    'wide': {'parallel': 2}, 'alpha': {}, 'twin': {}, 'beta': {},\n"
            "}.items():\n"
            "    preset = Preset.objects.get(name=name)\n"
            "    vars(preset).update({'parallel': 1} | fields)\n"
            "    preset.full_clean(); preset.save()"
        )
        yield running


def conversation(about: str) -> list[Message]:
    return [{"role": "user", "content": f"Tell me of {about}. " + "It is a long story. " * 80}]


def turn(
    running: Gateway, model: str, messages: list[Message], key: str | None = None
) -> tuple[list[Message], Any]:
    """The conversation with its next answer, and the engine's timings of that."""
    body = chat_body(model, messages=messages, max_tokens=8, temperature=0)
    answer = running.client.request("POST", CHAT, body, key=key).json
    message = {"role": "assistant", "content": answer["choices"][0]["message"]["content"]}
    return [*messages, message, {"role": "user", "content": "And then?"}], answer["timings"]


def saves_of(running: Gateway, preset: str) -> dict[str, Any]:
    found = [each for each in running.snapshot()["saves"] if each["preset"] == preset]
    return found[0] if found else {}


def test_the_next_turn_after_an_eviction_is_the_one_of_a_model_that_was_never_evicted(
    narrow: Gateway,
) -> None:
    begun, first = turn(narrow, "twin", conversation("bees"))
    expected, stayed = turn(narrow, "twin", begun)

    begun, again = turn(narrow, "alpha", conversation("bees"))
    turn(narrow, "beta", conversation("wasps"))
    assert narrow.models()["alpha"] == "unloaded"
    went_on, came_back = turn(narrow, "alpha", begun)

    assert first["cache_n"] == again["cache_n"] == 0
    assert first["prompt_n"] > 400
    assert came_back["prompt_n"] == stayed["prompt_n"] < 40
    assert came_back["cache_n"] == stayed["cache_n"]
    assert went_on == expected
    counted = eventually(lambda: saves_of(narrow, "alpha").get("hits"), "the hit is counted")
    assert counted == 1


def test_the_next_turn_after_a_sleep_goes_on_as_well(narrow: Gateway) -> None:
    begun, _ = turn(narrow, "sleepy", conversation("nights"))
    eventually(lambda: narrow.models()["sleepy"] == "sleeping", "it sleeps")
    pid = narrow.child_of("sleepy").pid
    _, came_back = turn(narrow, "sleepy", begun)

    assert came_back["prompt_n"] < 40
    assert narrow.child_of("sleepy").pid == pid


def test_of_several_teams_in_one_process_it_is_known_whose_slot_is_whose(narrow: Gateway) -> None:
    made = narrow.manage("createkey", "stranger", "--team", "strangers")
    found = KEY.search(made.stdout)
    assert found, made
    turn(narrow, "wide", conversation("cats"))
    turn(narrow, "wide", conversation("dogs"), key=found[0])
    turn(narrow, "wide", conversation("cats"))
    turn(narrow, "beta", conversation("mice"))
    eventually(lambda: saves_of(narrow, "wide").get("files") == 2, "both are saved")
    labels = [json.loads(path.read_bytes()) for path in (narrow.var / "kv").glob("*.json")]
    wide = [label for label in labels if label["kind"]["preset"] == "wide"]

    assert len({label["tenant"] for label in wide} - {""}) == 2
    assert not any(label["alone"] for label in wide)


def test_it_outlives_the_gateways_scheduler(narrow: Gateway) -> None:
    begun, _ = turn(narrow, "alpha", conversation("ships"))
    turn(narrow, "beta", conversation("boats"))
    files = eventually(lambda: saves_of(narrow, "alpha").get("files"), "it is saved")
    narrow.kill("scheduler")
    narrow.wait_ready()
    _, came_back = turn(narrow, "alpha", begun)

    assert came_back["prompt_n"] < 40
    assert saves_of(narrow, "alpha")["files"] == files


def test_of_a_preset_that_says_so_nothing_is_saved(narrow: Gateway) -> None:
    begun, _ = turn(narrow, "plain", conversation("trees"))
    turn(narrow, "beta", conversation("shrubs"))
    _, came_back = turn(narrow, "plain", begun)

    assert came_back["cache_n"] == 0
    assert saves_of(narrow, "plain") == {}


def test_a_broken_file_is_dropped_and_the_conversation_read_again(narrow: Gateway) -> None:
    begun, _ = turn(narrow, "alpha", conversation("stars"))
    turn(narrow, "beta", conversation("moons"))
    eventually(lambda: saves_of(narrow, "alpha").get("files"), "it is saved")
    for path in (narrow.var / "kv").glob("*.kv"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    went_on, came_back = turn(narrow, "alpha", begun)
    expected, _ = turn(narrow, "plain", begun)

    assert came_back["cache_n"] == 0
    assert went_on == expected


def test_a_file_of_the_model_that_has_changed_makes_its_saves_stale(narrow: Gateway) -> None:
    begun, _ = turn(narrow, "alpha", conversation("rivers"))
    narrow.django(
        "from models_registry.models import Preset\n"
        "alpha = Preset.objects.get(name='alpha')\n"
        "alpha.extra_options = 'rope-freq-scale = 0.5'\n"
        "alpha.full_clean(); alpha.save()"
    )
    turn(narrow, "beta", conversation("lakes"))
    _, came_back = turn(narrow, "alpha", begun)

    assert came_back["cache_n"] == 0


def test_its_files_are_for_nobody_else_and_no_client_reaches_them(narrow: Gateway) -> None:
    turn(narrow, "twin", conversation("doors"))
    turn(narrow, "beta", conversation("gates"))
    eventually(lambda: saves_of(narrow, "twin").get("files"), "it is saved")
    folder = narrow.var / "kv"
    modes = {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    folders = [folder, *(path for path in folder.iterdir() if path.is_dir())]
    asked = narrow.client.request(
        "POST", "/slots/0?action=save&model=beta", {"filename": "mine.kv"}
    )

    assert modes == {0o600}
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
    assert asked.status == 501
