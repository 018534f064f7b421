"""The folder of saves: whole files only, within its budget, and nobody's at another's cost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scheduler.runtime.kv_saves.store as store_module
from scheduler.runtime.kv_saves.state_file import blocks_of
from scheduler.runtime.kv_saves.store import Kind, SaveStore

from .files import KIND, slot_file, written

OTHER = Kind("b", "made", "other")


class Clock:
    now = 1e9

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> SaveStore:
    made = SaveStore(tmp_path / "kv", 1 << 20, Clock())
    made.open()
    return made


def reopened(store: SaveStore) -> SaveStore:
    again = SaveStore(store.folder, store.budget, Clock())
    again.open()
    return again


def test_a_save_is_lent_as_it_was_written_also_after_a_restart(store):
    save, dropped = store.add(written(store))
    assert save is not None
    assert dropped == []
    again = reopened(store)

    [found] = again.of(KIND)
    assert found == save
    link = again.lend(found, again.folder_of_child())
    assert link is not None
    assert link.read_bytes() == slot_file(range(128))
    assert again.of(OTHER) == []


def test_files_are_for_nobody_else(store):
    store.add(written(store))

    assert store.folder.stat().st_mode & 0o777 == 0o700
    modes = {path.stat().st_mode & 0o777 for path in store.folder.rglob("*") if path.is_file()}
    assert modes == {0o600}
    folder = store.folder_of_child()
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", ["flipped", "cut", "longer", "gone"])
def test_what_is_not_what_was_written_is_dropped_and_never_lent(store, damage):
    save, _ = store.add(written(store))
    [path] = store.folder.glob("*.kv")
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        flipped = data[:-1] + bytes([data[-1] ^ 1])
        path.write_bytes({"flipped": flipped, "cut": data[:-1], "longer": data + b"."}[damage])

    assert store.lend(save, store.folder_of_child()) is None
    assert store.of(KIND) == []
    assert not [path for path in store.folder.iterdir() if path.is_file()]


def test_a_longer_state_of_the_same_conversation_replaces_the_older_one(store):
    store.add(written(store, range(256)))
    save, dropped = store.add(written(store, range(512)))

    assert [(old.tokens, why) for old, why in dropped] == [(256, "replaced")]
    assert store.of(KIND) == [save]


@pytest.mark.parametrize(
    ("tokens", "tenant", "kind"),
    [
        ([7, *range(1, 512)], "t", KIND),
        (range(512), "somebody else", KIND),
        (range(512), "t", OTHER),
    ],
)
def test_another_conversation_tenant_or_model_replaces_nothing(store, tokens, tenant, kind):
    first, _ = store.add(written(store, range(256)))
    _, dropped = store.add(written(store, tokens, tenant=tenant, kind=kind))

    assert dropped == []
    assert first in list(store)


def test_saves_of_older_options_are_stale(store):
    store.add(written(store))
    _, dropped = store.add(written(store, kind=Kind("a", "made anew", "key 2")))

    assert [why for _, why in dropped] == ["stale"]
    assert store.of(KIND) == []


def test_saves_of_presets_that_there_are_no_more_are_dropped(store):
    store.add(written(store))
    store.add(written(store, kind=OTHER))

    assert [why for _, why in store.keep_presets({"b"})] == ["stale"]
    assert [save.kind for save in store] == [OTHER]


def test_what_nobody_has_come_back_for_is_removed_after_a_day(store):
    first, _ = store.add(written(store))
    second, _ = store.add(written(store, [9] * 128))
    store._clock.now += 86_400.0 / 2
    store.used(first)
    store._clock.now += 86_400.0 / 2
    _, dropped = store.add(written(store, kind=OTHER))

    assert [(save.name, why) for save, why in dropped] == [(second.name, "old")]


def test_the_least_lately_used_make_way(store):
    store.budget = 3000
    saves = [store.add(written(store, [n] * 128, size=1000))[0] for n in range(3)]
    store.used(saves[0])
    _, dropped = store.add(written(store, [9] * 128, size=1000))

    assert [(save.name, why) for save, why in dropped] == [(saves[1].name, "room")]


def test_a_tenant_that_has_less_is_not_pushed_out_by_one_that_has_more(store):
    store.budget = 3000
    small, _ = store.add(written(store, [1] * 128, tenant="small", size=1000))
    for n in range(2, 6):
        store.add(written(store, [n] * 128, tenant="big", size=1000))

    assert small in list(store)
    assert [save.tenant for save in store] == ["small", "big", "big"]


def test_one_that_would_push_out_who_has_less_is_not_kept(store):
    store.budget = 3000
    store.add(written(store, [1] * 128, tenant="small", size=1000))
    save, dropped = store.add(written(store, [2] * 128, tenant="big", size=2500))

    assert (save, dropped) == (None, [])
    assert [save.tenant for save in store] == ["small"]
    assert not list(store.folder.glob("child-*/*"))


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(600, 3000), st.booleans()), max_size=25)
)
def test_saves_never_take_more_than_the_budget_nor_from_who_has_less(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("saves")
    store = SaveStore(folder, 5000, Clock())
    store.open()
    for number, (tenant, size, is_used) in enumerate(steps):
        before = list(store)
        save, dropped = store.add(written(store, [number] * 128, tenant=tenant, size=size))
        held: dict[str, int] = {}
        for each in before:
            held[each.tenant] = held.get(each.tenant, 0) + each.size
        for each, why in dropped:
            assert why == "room"
            assert each.tenant == tenant or held[each.tenant] >= held.get(tenant, 0) + size
            held[each.tenant] -= each.size
        if save is not None and is_used:
            store.used(next(iter(store)))

        assert store.total <= 5000
        on_disk = sum(path.stat().st_size for path in folder.glob("*.kv"))
        assert on_disk == store.total
        assert sorted(reopened_names(folder)) == sorted(save.name for save in store)
    shutil.rmtree(folder)


def reopened_names(folder: Path) -> list[str]:
    return [path.stem for path in folder.glob("*.json")]


# A crash ----------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process, at that step."""


def calls_of(do: Callable[[], object], monkeypatch: pytest.MonkeyPatch, die_at: int) -> int:
    """How many changes of the file system `do` makes; it dies before the one numbered `die_at`."""
    made = 0

    def counted(real):
        def call(*args, **kwargs):
            nonlocal made
            made += 1
            if made == die_at:
                raise Killed
            return real(*args, **kwargs)

        return call

    with monkeypatch.context() as patched:
        for name in ("replace", "unlink", "chmod"):
            patched.setattr(Path, name, counted(getattr(Path, name)))
        patched.setattr(store_module.os, "open", counted(os.open))
        patched.setattr(store_module.os, "fdopen", counted(os.fdopen))
        do()
    return made


@pytest.mark.parametrize("die_at", range(1, 12))
def test_a_crash_at_any_step_leaves_whole_saves_and_nothing_else(store, monkeypatch, die_at):
    store.add(written(store, range(256)))
    newer = written(store, range(512))
    try:
        made = calls_of(lambda: store.add(newer), monkeypatch, die_at)
        assert made < die_at, "one more step than this test dies at"
    except Killed:
        pass
    again = reopened(store)

    saves = list(again)
    assert len(saves) <= 1
    for save in saves:
        assert again.lend(save, again.folder_of_child()) is not None
    files = {path.name for path in again.folder.iterdir() if path.is_file()}
    assert files == {f"{save.name}.{end}" for save in saves for end in ("kv", "json")}


def test_a_crash_is_possible_at_every_step_that_is_tried(store, monkeypatch):
    store.add(written(store, range(256)))
    newer = written(store, range(512))

    assert calls_of(lambda: store.add(newer), monkeypatch, die_at=0) < 12


def test_a_full_disk_is_told_and_leaves_nothing(store, monkeypatch):
    newer = written(store)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(store_module.os, "fdopen", full)
        with pytest.raises(OSError, match="No space"):
            store.add(newer)

    assert list(store) == []
    assert not [path for path in store.folder.rglob("*") if path.is_file()]


def test_what_lies_there_and_is_no_save_is_removed_at_a_start(store):
    store.add(written(store))
    (store.folder / "half.kv").write_bytes(b"half")
    (store.folder / "lonely.json").write_text("{}")
    (store.folder / "x.draft").write_text("{")
    left = store.folder_of_child()
    (left / "slot.kv").write_bytes(b"of a child that is dead")
    again = reopened(store)

    assert len(list(again)) == 1
    assert len(list(again.folder.iterdir())) == 2


def test_a_smaller_budget_counts_from_the_next_start(store):
    for n in range(3):
        store.add(written(store, [n] * 128, size=1000))
    smaller = SaveStore(store.folder, 1500, Clock())

    assert [why for _, why in smaller.open()] == ["room", "room"]
    assert smaller.total == 1000


# The file ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [True, False])
def test_blocks_tell_how_far_two_files_hold_the_same_tokens(tmp_path, packed):
    def blocks(tokens):
        path = tmp_path / "x.kv"
        path.write_bytes(slot_file(tokens, packed=packed))
        return blocks_of(path)

    whole = blocks(range(200))
    assert len(whole) == 3
    assert blocks(range(130)) == whole[:2]
    other = blocks([*range(100), 7, *range(101, 200)])
    assert other[0] == whole[0]
    assert not set(other[1:]) & set(whole)


@given(st.binary(max_size=64))
def test_a_file_that_is_not_understood_has_no_blocks_and_breaks_nothing(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("file") / "x.kv"
    path.write_bytes(data)

    blocks_of(path)
