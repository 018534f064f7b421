"""Devices as they really are, beside what a planner is told of them; and presets for them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from scheduler.core.sizes import (
    HOST,
    DeviceId,
    DeviceReading,
    FileId,
    FixedShape,
    Need,
    loaded,
)

from .memory import sized
from .referee import Referee
from .shapes import A, B, model

SHARED = FileId("shared.gguf")


def a_shape(name: str, chance: Random) -> dict[str, Any]:
    """What a preset takes, if anybody counts it: where its options put it, or wherever."""
    file = chance.choice([SHARED, FileId(f"{name}.gguf")])
    placed = [
        sized(()),
        sized(((A, 4),)),
        sized(((A, 10), (HOST, 3))),
        sized(((B, 5),)),
        sized(((HOST, 9),)),
        FixedShape(
            (
                (1024, Need(((A, 3), (HOST, 1)), ((file, 4),))),
                (2048, Need(((A, 5), (HOST, 2)), ((file, 4),))),
                (4096, Need(((A, 9), (HOST, 3)), ((file, 4),))),
            )
        ),
    ]
    if chance.random() < 0.6:
        return {"fixed": chance.choice(placed)}
    cache = chance.choice([(0,), (1, 2), (1, 2, 4)])
    grows = cache if chance.random() < 0.5 else (0,) * len(cache)
    layers = chance.choice([(2, 2, 2), (1, 4, 1, 2)])
    shape = model(
        *layers,
        cache=cache,
        devices=chance.choice([(A,), (A, B)]),
        file=file,
        mapped=tuple(sum(layers[: len(layers) - n]) for n in range(len(layers) + 1)),
        device_compute=cache,
        host_compute=((0,) * len(cache), cache),
        host_fixed=chance.choice([0, 1]),
        first_device_fixed=chance.choice([(), grows]),
        spread_compute=chance.choice([((), ()), (tuple(2 * n for n in cache), cache)]),
        receiving=chance.choice([(), (), (B,), (A, B)]),
    )
    layers_told = tuple(replace(layer, largest=layer.weights) for layer in shape.layers)
    return {"open": replace(shape, layers=layers_told)}


class Machine:
    """Two GPUs and the host. Children take what they were granted, or what they have said; others
    take what they like; and what has exited may take a moment to be free."""

    def __init__(self, referee: Referee, chance: Random) -> None:
        self.referee = referee
        self.chance = chance
        self.known: tuple[DeviceId, ...] = (A,)
        self.total = {A: 25, B: 12, HOST: 30}
        self.margin = dict.fromkeys(self.total, 0)
        self.budget: dict[DeviceId, int | None] = dict.fromkeys(self.total)
        self.foreign = dict.fromkeys(self.total, 0)
        self.lists = {A: False, B: True, HOST: True}  # whether the driver lists processes
        self.exclusive = False

    def changes(self) -> None:
        """Now and then: a device comes or goes, others take memory, somebody edits a limit."""
        pick = self.chance.choice
        if self.chance.random() < 0.15:
            self.known = pick([(A,), (A, HOST), (A, B, HOST), (A, B, HOST), ()])
            self.total = {A: pick([8, 12, 25, 60]), B: pick([6, 12]), HOST: pick([9, 20, 60])}
            self.exclusive = pick([False, False, True])
            self.lists[A] = pick([False, True])
        device = pick(list(self.total))
        if self.chance.random() < 0.3:
            self.margin[device] = pick([0, 0, 1, 3])
            self.budget[device] = pick([None, None, 5, 11])
        if self.chance.random() < 0.4:
            self.foreign[device] = pick([0, 0, 2, 6, 15])

    def readings(self) -> tuple[DeviceReading, ...]:
        stale = self.chance.random() < 0.1
        return tuple(self._reading(device, stale) for device in self.known)

    def _reading(self, device: DeviceId, stale: bool) -> DeviceReading:
        total = self.total[device]
        foreign = min(self.foreign[device], total)
        lingers = self.chance.choice([0, 0, 3])
        used = min(total, foreign + self._ours(device) + lingers)
        return DeviceReading(
            device,
            total,
            total - used,
            foreign=foreign if self.lists[device] else None,
            budget=self.budget[device],
            margin=self.margin[device],
            exclusive=self.exclusive and device == B,
            stale=stale,
        )

    def _ours(self, device: DeviceId) -> int:
        """What loads has taken nothing yet, or all of it."""
        accounts = self.referee.accounts
        used = 0
        for number, need in accounts.held.items():
            if accounts.moods[number] != "loading" or self.chance.random() < 0.5:
                used += dict(need.own).get(device, 0)
        return used + (sum(accounts.mapped().values()) if device == HOST else 0)

    def allocated(self, number: int) -> Need:
        """As granted, or a little more or less on each device; a sleeper keeps next to nothing."""
        accounts = self.referee.accounts
        need = loaded(accounts.grants[number].need)
        if accounts.moods[number] == "sleeping":
            return Need(tuple((device, 1) for device, _ in need.own[:1]))
        own = ((d, max(0, size + self.chance.choice([-1, 0, 0, 0, 1]))) for d, size in need.own)
        return Need(tuple(own), need.mapped)
