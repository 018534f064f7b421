"""What the measure job tells the scheduler, and what the snapshot shows of it."""

from __future__ import annotations

import pytest

from scheduler.runtime.figures import Figures

from .serving import serving, wired
from .standing_in import preset

MEASURED = {"op": "measured", "id": 1, "preset": "a", "fingerprint": "m", "devices": {"Host": 7}}


async def test_figures_are_shown_while_the_preset_has_their_fingerprint():
    async with (
        serving(preset("a", memory_fingerprint="m")) as (stage, socket),
        wired(socket) as wire,
    ):
        assert "ok" in await wire.ask(MEASURED)
        before = await wire.ask({"op": "snapshot", "id": 2})
        stage.offers(preset("a", memory_fingerprint="other"))
        after = await wire.ask({"op": "snapshot", "id": 3})

        assert before["ok"]["measured"] == {"a": {"Host": 7}}
        assert after["ok"]["measured"] == {}


async def test_figures_of_an_unknown_preset_are_refused():
    async with serving(preset("a")) as (_, socket), wired(socket) as wire:
        reply = await wire.ask({**MEASURED, "preset": "nope"})

        assert reply["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    "change",
    [
        {"devices": {}},
        {"devices": {"Host": -1}},
        {"devices": {"Host": 2**51}},
        {"devices": {"Host": 1.5}},
        {"devices": {"Host": "much"}},
        {"devices": {"": 1}},
        {"devices": {"a b": 1}},
        {"devices": {"x" * 65: 1}},
        {"devices": {f"CUDA{number}": 1 for number in range(65)}},
        {"devices": None},
        {"fingerprint": ""},
        {"fingerprint": "x" * 65},
        {"extra": 1},
    ],
)
async def test_nonsense_is_refused_and_kept_nowhere(change):
    async with (
        serving(preset("a", memory_fingerprint="m")) as (_, socket),
        wired(socket) as wire,
    ):
        reply = await wire.ask({**MEASURED, **change})
        snapshot = await wire.ask({"op": "snapshot", "id": 2})

        assert reply["error"]["code"] == "invalid_request"
        assert snapshot["ok"]["measured"] == {}


def test_what_the_rows_say_joins_what_was_told():
    a, b = preset("a", memory_fingerprint="fa"), preset("b", memory_fingerprint="fb")
    figures = Figures()
    figures.keep("a", "fa", {"Host": 1})
    figures.keep("gone", "fg", {"Host": 9})

    figures.keep_read([a, b], {"fb": {"Host": 2}})

    assert (figures.of(a), figures.of(b)) == ({"Host": 1}, {"Host": 2})
    figures.keep_read([preset("gone", memory_fingerprint="fg")], {})
    assert figures.of(preset("gone", memory_fingerprint="fg")) is None


def test_a_preset_that_cannot_be_measured_has_no_figures():
    figures = Figures()
    figures.keep("a", "", {"Host": 1})

    assert figures.of(preset("a")) is None
