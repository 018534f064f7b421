"""Children with fake slots: what they hold is what a test says, and their files are made up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from models_registry.launch import LaunchSpec
from scheduler.kv_rule import KvRule
from scheduler.runtime.instance_run import InstanceRun
from scheduler.runtime.kv_saves.child_slots import Done, Failed, Slot
from scheduler.runtime.kv_saves.keeping import OPTION, KvSaves
from scheduler.runtime.kv_saves.store import SaveStore
from tests.runtime.standing_in import Stage, preset, staged

from .files import slot_file


def saved_preset(name: str = "a", parallel: int = 1, **fields: Any) -> LaunchSpec:
    return preset(name, parallel, memory_fingerprint=f"of {name}", **fields)


class FakeSlots:
    """`holds` are the tokens of each slot of the child that runs; a restore fills them from the
    file. Slots are asked for by the address of an instance, and there is one that is asked."""

    def __init__(self, store: SaveStore) -> None:
        self.store = store
        self.holds: dict[int, list[int]] = {}
        self.tasks: dict[int, int | None] = {}
        self.busy: set[int] = set()
        self.saved: list[list[int]] = []
        self.restored: list[list[int]] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.fails: Failed | None = None
        self.looks = 0
        self.slots = 1

    def read(self, tokens: list[int], slot: int = 0) -> None:
        """A request has left these tokens in a slot."""
        self.holds[slot] = tokens
        self.tasks[slot] = 1 + max((task or 0 for task in self.tasks.values()), default=0)

    def start_anew(self, slots: int = 1) -> None:
        """As in a fresh process."""
        self.holds, self.tasks, self.slots = {}, {}, slots

    async def look(self, address: str) -> list[Slot]:
        self.looks += 1
        return [
            Slot(n, self.tasks.get(n), len(self.holds.get(n, [])), n not in self.busy)
            for n in range(self.slots)
        ]

    async def save(self, address: str, slot: int, name: str) -> Done | Failed:
        [folder] = self.store.folder.glob("child-*")
        path = folder / name
        path.write_bytes(slot_file(self.holds[slot])[:10])
        await self.answers.wait()
        if self.fails is not None:
            return self.fails
        data = slot_file(self.holds[slot])
        path.write_bytes(data)
        self.saved.append(self.holds[slot])
        return Done(len(self.holds[slot]), len(data))

    async def restore(self, address: str, slot: int, name: str) -> Done | Failed:
        await self.answers.wait()
        if self.fails is not None:
            return self.fails
        [path] = self.store.folder.glob(f"child-*/{name}")
        tokens = self._tokens(path)
        self.holds[slot] = tokens
        self.restored.append(tokens)
        return Done(len(tokens), path.stat().st_size)

    async def reading_speed(self, address: str) -> float:
        return 100.0

    def _tokens(self, path: Path) -> list[int]:
        known = {slot_file(tokens): tokens for tokens in self.saved}
        return known[path.read_bytes()]


class Saving:
    """A stage with room for one instance, whose conversations are saved."""

    def __init__(self, stage: Stage, slots: FakeSlots, store: SaveStore) -> None:
        self.stage, self.slots, self.store = stage, slots, store

    async def turn(self, tokens: list[int], *, tenant: str = "t", name: str = "a") -> InstanceRun:
        """A request of a tenant that leaves `tokens` in the slot."""
        asking = self.stage.ask(name, tenant=tenant)
        run = await asking.run()
        self.slots.read(tokens)
        asking.release(context=len(tokens), cached=0)
        await self.stage.owner.caught_up()
        return run

    async def swap(self, name: str = "b", slots: int = 1) -> None:
        """Another model takes the room, and the next child's slots are empty."""
        asking = self.stage.ask(name, tenant="other")
        await asking.run()
        self.slots.start_anew(slots)
        asking.release()
        await self.stage.owner.caught_up()

    def folder_of(self, run: InstanceRun) -> Path:
        return Path(run.spec.argv[run.spec.argv.index(OPTION) + 1])


@contextlib.asynccontextmanager
async def saving(
    folder: Path, *specs: LaunchSpec, rule: KvRule | None = None, budget: int = 1 << 20, **how: Any
) -> AsyncIterator[Saving]:
    rule = rule or KvRule(least_tokens=64)
    store = SaveStore(folder / "kv", budget, lasts_seconds=rule.lasts_seconds)
    slots = FakeSlots(store)
    specs = specs or (saved_preset("a"), preset("b"))
    async with staged(
        *specs, models_max=1, save=lambda owner: KvSaves(owner, slots, store, rule), **how
    ) as stage:
        yield Saving(stage, slots, store)
