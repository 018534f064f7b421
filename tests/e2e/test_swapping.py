"""Two presets that take turns where there is room for one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.support.asking import whole
from tests.support.gateway import Gateway, gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.any_server]


@pytest.fixture(scope="module")
def narrow(
    variant: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    models = {"alpha": {"seed": 1}, "beta": {"seed": 2}}
    folder = tmp_path_factory.mktemp("narrow")
    with gateway(folder, args=["--models-max", "1"], models=models, **variant) as running:
        yield running


def test_alternating_requests_are_all_answered_by_the_model_they_name(narrow: Gateway) -> None:
    answers = [narrow.client.chat(model) for model in ["alpha", "beta"] * 4]

    assert all(whole(answer) for answer in answers)
    assert [answer.json["model"] for answer in answers] == ["alpha", "beta"] * 4


def test_after_a_swap_only_the_last_model_has_a_child(narrow: Gateway) -> None:
    for model in ["alpha", "beta", "alpha"]:
        narrow.client.chat(model)

    assert [child.preset for child in narrow.children()] == ["alpha"]


def test_there_are_never_more_children_than_models_max(narrow: Gateway) -> None:
    with _watched(narrow) as seen:
        for model in ["alpha", "beta"] * 5:
            assert narrow.client.chat(model).status == 200

    assert seen.most_children == 1


def test_the_list_of_models_agrees_with_the_processes_during_swaps(narrow: Gateway) -> None:
    with _watched(narrow) as seen:
        for model in ["alpha", "beta"] * 5:
            assert narrow.client.chat(model).status == 200
        eventually(lambda: seen.readings >= 10, "ten readings of the list")

    assert seen.lies == []


@dataclass
class _Seen:
    readings: int = 0
    most_children: int = 0
    lies: list[str] = field(default_factory=list)


@contextmanager
def _watched(running: Gateway) -> Iterator[_Seen]:
    """Compare the list with the kernel all the while. What was there before and after a reading
    was there during it, and what was there at neither time was not."""
    seen, over = _Seen(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            before = {child.pid: child.preset for child in running.children()}
            states = running.models()
            after = {child.pid: child.preset for child in running.children()}
            all_along = {before[pid] for pid in before.keys() & after.keys()}
            ever = {*before.values(), *after.values()}
            seen.readings += 1
            seen.most_children = max(seen.most_children, len(before), len(after))
            seen.lies += [
                f"{preset} is {state}; children {before} and then {after}"
                for preset, state in states.items()
                if (state in ("unloaded", "queued") and preset in all_along)
                or (state == "loaded" and preset not in ever)
            ]

    watcher = threading.Thread(target=watch, name="watcher")
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()
