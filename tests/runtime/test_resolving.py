"""What somebody may not use is not there for them, by whatever name."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.protocol import Keep, OwnNames, Unload

from .standing_in import preset, staged

SERVED = (
    preset("open", aliases=("friendly", "gpt*")),
    preset("secret", aliases=("hidden", "claude*", "*")),
)
ONLY_OPEN = (("open",),)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("secret", {}),
        ("hidden", {}),
        ("secret:latest", {}),
        ("claude-9", {}),
        ("whatever", {}),
        ("mine", {"exact": "secret"}),
        ("mine", {"wildcard": "hidden"}),
        ("mine", {"default": "secret"}),
    ],
)
async def test_it_is_refused_as_a_name_that_nobody_has(name, own):
    async with staged(*SERVED) as stage:
        refused = await stage.ask(name, own=OwnNames(**own), allowed=ONLY_OPEN).refusal()

        assert refused.code == "model_not_found"
        shown = refused.message.replace(f"'{name}'", "")
        if not own:
            assert not any(word in shown for word in ("secret", "hidden", "claude"))
        assert stage.starts == []


async def test_the_words_are_those_for_a_name_that_is_not_there():
    async with staged(preset("open"), preset("secret")) as stage:
        kept = await stage.ask("secret", allowed=ONLY_OPEN).refusal()
        unknown = await stage.ask("sekret", allowed=ONLY_OPEN).refusal()

        assert kept.message.replace("secret", "x") == unknown.message.replace("sekret", "x")


async def test_who_names_no_model_and_may_not_use_the_default_is_told_that_there_is_none():
    async with staged(*SERVED) as stage:
        assert (await stage.ask("", allowed=ONLY_OPEN).refusal()).code == "model_missing"


@pytest.mark.parametrize("allowed", [(("open",),), (("friendly",),), (("op*", "x"), ("*",))])
@pytest.mark.parametrize("name", ["open", "friendly", "gpt-4"])
async def test_what_is_allowed_by_one_of_its_names_is_there_by_all_of_them(name, allowed):
    async with staged(*SERVED) as stage:
        assert (await stage.ask(name, allowed=allowed).run()).spec.preset == "open"


async def test_it_is_neither_loaded_nor_unloaded_nor_kept():
    async with staged(*SERVED) as stage:
        await stage.ask("secret").run()
        told, kept = [], asyncio.get_running_loop().create_future()
        stage.operations.load("secret", told.append, allowed=ONLY_OPEN)
        stage.operations.unload(Unload(0, "secret", True, ONLY_OPEN), told.append)
        stage.operations.keep(Keep(1, "secret", 0.0, "t", allowed=ONLY_OPEN), kept.set_result)
        await stage.owner.caught_up()

        assert [each.code for each in [*told, await kept]] == ["model_not_found"] * 3
        assert stage.leases() == 1
