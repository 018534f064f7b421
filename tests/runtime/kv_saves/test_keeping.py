"""What is saved of an instance that goes, and what is restored into the next one."""

from __future__ import annotations

import pytest

from models_registry.engines import EngineKind, EngineSetup
from scheduler.kv_rule import KvRule
from scheduler.protocol import Unload
from scheduler.runtime.kv_saves.child_slots import Failed
from scheduler.runtime.record import Decided
from tests.runtime.standing_in import preset, until

from .fakes import saved_preset, saving

LONG = list(range(300))
SHORT = list(range(63))
ISOLATED = KvRule(least_tokens=64, isolated=True)


async def test_what_its_slot_held_is_back_before_the_first_client_of_the_next_instance(tmp_path):
    async with saving(tmp_path) as saved:
        first = await saved.turn(LONG)
        await saved.swap()
        asking = saved.stage.ask("a", tenant="t")
        second = await asking.run()

        assert saved.slots.restored == [LONG]
        assert second.instance != first.instance
        assert saved.folder_of(first) != saved.folder_of(second)
        assert not saved.folder_of(first).exists()
        assert list(saved.folder_of(second).iterdir()) == []
        asking.release()


async def test_a_request_that_finds_it_is_a_hit_and_is_told_what_it_was_spared(tmp_path):
    async with saving(tmp_path) as saved:
        await saved.turn(LONG)
        await saved.swap()
        asking = saved.stage.ask("a", tenant="t")
        await asking.run()
        asking.release(context=310, cached=299)
        await until(lambda: saved.stage.operations.saves.counting.states()[0].hits)

        [state] = saved.stage.operations.saves.counting.states()
        assert (state.preset, state.files, state.saved, state.restored) == ("a", 1, 1, 1)
        assert 2.5 < state.seconds <= 3.0
        kinds = [each.kind for each in saved.stage.entries if isinstance(each, Decided)]
        assert [kind for kind in kinds if kind.startswith("kv")] == ["kv_save", "kv_restore"]


async def test_one_that_finds_nothing_of_it_is_no_hit(tmp_path):
    async with saving(tmp_path) as saved:
        await saved.turn(LONG)
        await saved.swap()
        asking = saved.stage.ask("a", tenant="t")
        await asking.run()
        asking.release(context=310, cached=20)
        await saved.stage.owner.caught_up()

        [state] = saved.stage.operations.saves.counting.states()
        assert (state.hits, state.seconds) == (0, 0.0)


@pytest.mark.parametrize(
    "spec",
    [
        saved_preset("a", kv_saves=False),
        preset("a"),
        saved_preset("a", argv=("--embeddings",)),
        saved_preset("a", argv=("--spec-draft-model", "d.gguf")),
        saved_preset("a", argv=("--model-draft", "d.gguf")),
        saved_preset("a", engine=EngineSetup(kind=EngineKind.COMMAND, command_line="serve")),
    ],
    ids=["off", "of unknown figures", "embeddings", "drafts", "drafts by an older name", "engine"],
)
async def test_of_what_cannot_be_restored_nothing_is_saved(tmp_path, spec):
    async with saving(tmp_path, spec, preset("b")) as saved:
        run = await saved.turn(LONG)
        await saved.swap()

        assert "--slot-save-path" not in run.spec.argv
        assert saved.slots.looks == 0


async def test_a_short_conversation_is_not_worth_it(tmp_path):
    async with saving(tmp_path) as saved:
        await saved.turn(SHORT)
        await saved.swap()

        assert saved.slots.saved == []
        assert saved.slots.looks == 0


async def test_of_a_request_that_nobody_has_counted_the_slot_is_looked_at(tmp_path):
    async with saving(tmp_path) as saved:
        asking = saved.stage.ask("a", tenant="t")
        await asking.run()
        saved.slots.read(LONG)
        asking.release()
        await saved.stage.owner.caught_up()
        await saved.swap()

        assert saved.slots.saved == [LONG]


async def test_a_slot_that_holds_little_is_not_worth_it(tmp_path):
    async with saving(tmp_path) as saved:
        run = await saved.turn(LONG)
        saved.slots.read(SHORT)
        await saved.swap()

        assert saved.slots.saved == []
        assert run.instance == 1


async def test_a_slot_that_still_works_is_left_alone(tmp_path):
    async with saving(tmp_path) as saved:
        await saved.turn(LONG)
        saved.slots.busy = {0}
        await saved.swap()

        assert saved.slots.saved == []


async def test_what_was_restored_and_not_used_is_not_written_again(tmp_path):
    async with saving(tmp_path) as saved:
        await saved.turn(LONG)
        await saved.swap()
        asking = saved.stage.ask("a", tenant="t")
        await asking.run()
        asking.release()  # a request that wrote into no slot
        await saved.stage.owner.caught_up()
        await saved.swap()

        assert saved.slots.saved == [LONG]
        assert len(list(saved.store)) == 1


async def test_an_instance_that_nobody_used_is_not_even_asked(tmp_path):
    async with saving(tmp_path) as saved:
        saved.stage.operations.load("a", lambda answer: None)
        await until(lambda: saved.stage.owner.runs and saved.stage.children)
        await saved.swap()

        assert saved.slots.looks == 0


async def test_an_exit_waits_no_longer_than_it_may_and_nothing_half_stays(tmp_path):
    rule = KvRule(wait_seconds=0.02, least_tokens=64)
    async with saving(tmp_path, rule=rule) as saved:
        await saved.turn(LONG)
        saved.slots.answers.clear()
        await saved.swap()

        assert list(saved.store) == []
        await until(lambda: not list(saved.store.folder.glob("child-*/*")))


@pytest.mark.parametrize("for_good", [True, False])
async def test_what_the_child_cannot_save_is_no_reason_to_stay(tmp_path, for_good):
    async with saving(tmp_path) as saved:
        await saved.turn(LONG)
        saved.slots.fails = Failed("save was answered 501", for_good)
        await saved.swap()

        assert list(saved.store) == []


async def test_a_save_that_the_child_does_not_take_is_dropped_and_the_load_goes_on(tmp_path):
    async with saving(tmp_path) as saved:
        await saved.turn(LONG)
        await saved.swap()
        saved.slots.fails = Failed("restore was answered 400")
        asking = saved.stage.ask("a", tenant="t")
        await asking.run()

        assert list(saved.store) == []
        dropped = [e for e in saved.stage.entries if isinstance(e, Decided) and e.kind == "kv_drop"]
        assert [each.reason for each in dropped] == ["refused"]
        asking.release()


async def being_restored(saved):
    """Somebody waits, and a child is reading a save."""
    await saved.turn(LONG)
    await saved.swap()
    saved.slots.answers.clear()
    asking = saved.stage.ask("a", tenant="t")
    await until(lambda: list(saved.store.folder.glob("child-*/*.kv")))
    return asking


async def test_a_child_that_dies_of_a_save_gets_it_only_once(tmp_path):
    async with saving(tmp_path) as saved:
        asking = await being_restored(saved)
        saved.stage.children[2].end(-6)

        assert (await asking.refusal()).code == "model_load_failed"
        await until(lambda: not list(saved.store))


async def test_a_child_that_is_killed_while_it_reads_a_save_does_not_cost_it(tmp_path):
    async with saving(tmp_path) as saved:
        asking = await being_restored(saved)
        saved.stage.operations.unload(Unload(0, "a", True), lambda count: None)
        await asking.refusal()
        await until(lambda: not saved.stage.owner.runs)

        assert len(list(saved.store)) == 1


async def test_the_conversation_of_who_waits_goes_before_newer_ones(tmp_path):
    async with saving(tmp_path) as saved:
        for number, tenant in enumerate(("x", "y", "z")):
            await saved.turn([number] * 300, tenant=tenant)
            await saved.swap()
        asking = saved.stage.ask("a", tenant="y")
        await asking.run()

        assert saved.slots.restored[-1] == [1] * 300
        asking.release()


async def test_free_slots_take_the_conversations_of_others_the_last_used_first(tmp_path):
    async with saving(tmp_path, saved_preset("a", 2), preset("b")) as saved:
        for number, tenant in enumerate(("x", "y", "z")):
            await saved.turn([number] * 300, tenant=tenant)
            await saved.swap()
        saved.slots.start_anew(slots=2)
        saved.slots.restored.clear()
        asking = saved.stage.ask("a", tenant="x")
        await asking.run()

        assert saved.slots.restored == [[0] * 300, [2] * 300]
        asking.release()


async def test_with_isolation_nothing_is_restored_for_another_tenant(tmp_path):
    async with saving(tmp_path, rule=ISOLATED) as saved:
        await saved.turn(LONG, tenant="x")
        await saved.swap()
        await saved.turn([7] * 300, tenant="y")
        assert saved.slots.restored == []
        await saved.swap()
        asking = saved.stage.ask("a", tenant="x")
        await asking.run()

        assert saved.slots.restored == [LONG]
        asking.release()


async def test_with_isolation_what_several_tenants_used_is_restored_for_none(tmp_path):
    async with saving(tmp_path, rule=ISOLATED) as saved:
        await saved.turn(LONG, tenant="x")
        await saved.turn([7] * 300, tenant="y")
        await saved.swap()
        for tenant in ("x", "y"):
            await saved.turn([8] * 300, tenant=tenant)
            await saved.swap()

        assert saved.slots.restored == []


async def test_a_shutdown_saves_and_waits_until_it_is_whole(tmp_path):
    async with saving(tmp_path) as saved:
        await saved.turn(LONG)

    assert [save.tokens for save in saved.store] == [300]
    assert len(list((tmp_path / "kv").iterdir())) == 2


async def test_a_folder_that_cannot_be_made_is_said_once_and_nothing_is_saved(tmp_path, caplog):
    (tmp_path / "kv").write_text("in the way")
    async with saving(tmp_path) as saved:
        run = await saved.turn(LONG)

        assert "--slot-save-path" not in run.spec.argv
        assert len([r for r in caplog.records if "not saved" in r.getMessage()]) == 1


async def test_of_an_edited_preset_nothing_is_saved_that_could_not_be_restored(tmp_path):
    async with saving(tmp_path) as saved:
        await saved.turn(LONG)
        saved.stage.offers(saved_preset("a", fingerprint="edited"), preset("b"), revision=2)
        await saved.swap()

        assert saved.slots.saved == []


async def test_what_was_saved_of_a_preset_goes_with_it(tmp_path):
    async with saving(tmp_path, saved_preset("a"), saved_preset("b")) as saved:
        await saved.turn(LONG)
        await saved.swap()
        await saved.turn([7] * 300, name="b")
        saved.stage.offers(saved_preset("b"), preset("c"), revision=2)
        await saved.swap("c")
        await until(lambda: [save.kind.preset for save in saved.store] == ["b"])


async def test_what_is_too_old_is_removed_also_while_nothing_is_saved(tmp_path):
    rule = KvRule(least_tokens=64, lasts_seconds=0.05)
    async with saving(tmp_path, rule=rule) as saved:
        await saved.turn(LONG)
        await saved.swap()

        def dropped():
            entries = saved.stage.entries
            return [e.reason for e in entries if isinstance(e, Decided) and e.kind == "kv_drop"]

        await until(dropped)
        assert dropped() == ["old"]
        assert not list(saved.store)


def asleep(saved):
    """The child of the last instance has fallen asleep: its slots are empty."""
    saved.stage.children[-1].say("sleeping")
    saved.slots.start_anew()


async def test_a_sleeper_is_not_woken_to_be_saved(tmp_path):
    async with saving(tmp_path) as saved:
        await saved.turn(LONG)
        asleep(saved)
        await saved.stage.owner.caught_up()
        await saved.swap()

        assert saved.slots.looks == 0


async def test_one_that_will_sleep_is_saved_before_and_has_its_own_back_when_it_wakes(tmp_path):
    sleeps = saved_preset("a", argv=("--sleep-idle-seconds", "0.02"))
    async with saving(tmp_path, sleeps, preset("b")) as saved:
        await saved.turn(LONG)
        await until(lambda: list(saved.store))
        asleep(saved)
        asking = saved.stage.ask("a", tenant="t")
        await until(lambda: saved.stage.engine.woken)
        saved.slots.answers.clear()
        for state in ("loading", "ready"):
            saved.stage.children[-1].say(state)
        await until(lambda: list(saved.store.folder.glob("child-*/*.kv")))
        assert not asking.answer.done()
        saved.slots.answers.set()
        await asking.run()

        assert saved.slots.restored == [LONG]
        asking.release()


async def test_a_ready_that_a_client_wrote_restores_nothing(tmp_path):
    async with saving(tmp_path) as saved:
        await saved.turn(LONG)
        await saved.swap()
        await saved.turn([*LONG, 7])
        for state in ("loading", "ready"):
            saved.stage.children[-1].say(state)
        await saved.stage.owner.caught_up()

        assert saved.slots.restored == [LONG]
