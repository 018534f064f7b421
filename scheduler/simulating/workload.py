"""What is simulated: models, tenants, requests, clients, and a trace of them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from scheduler.core.sizes import Bytes
from scheduler.core.values import PresetName, PresetSpec, Priority, TenantId

FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """A model as the machine runs it; times in seconds, speeds in tokens per second.

    `start_seconds` of a load are the process's own; in the rest its weights come from the disk,
    which all loads share. One slot alone answers at `answer_speed`; each further busy slot of the
    instance makes an answer that begins then longer by `slowdown` of that. `crashes` is how many an
    hour of running brings, `failing` the share of its loads that die by themselves."""

    spec: PresetSpec
    load_seconds: float  # with the disk to itself
    start_seconds: float = 1.0
    exit_seconds: float = 0.5
    read_speed: float = 1500.0
    answer_speed: float = 40.0
    slowdown: float = 0.15
    crashes: float = 0.0
    failing: float = 0.0


@dataclass(frozen=True, slots=True)
class SimulatedTenant:
    name: TenantId
    weight: float = 1.0
    priority: Priority = Priority.NORMAL


class Arrival(NamedTuple):
    """One request. `patience`: seconds from its arrival until its client leaves when its answer has
    not begun; `limit`: until it leaves whatever has come. `seconds` is how long the answer takes
    where that is known, instead of the tokens' time. One that is not streamed is worked on to its
    end by the child even after its client has left."""

    at: float
    preset: PresetName
    tenant: int = 0
    read: int = 0
    answered: int = 100
    patience: float = FOREVER
    limit: float = FOREVER
    streamed: bool = True
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """One in a closed loop: asks, waits for the end, thinks, asks again, from `begins` on."""

    preset: PresetName
    tenant: int = 0
    begins: float = 0.0
    read: int = 100
    answered: tuple[int, int] = (50, 400)  # at least, at most
    think_seconds: tuple[float, float] = (0.0, 0.0)
    patience: float = FOREVER


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything a policy meets. `arrivals` makes the same requests in the same order each time it
    is called. It ends when all is answered, or at `until` at the latest."""

    name: str
    about: str
    models: tuple[SimulatedModel, ...]
    tenants: tuple[SimulatedTenant, ...]
    arrivals: Callable[[], Iterable[Arrival]]
    until: float
    places: int = 4  # models_max of every policy; 0: no limit by count
    clients: tuple[Client, ...] = ()
    capacity: Bytes = ()  # of the devices; what is not named is not limited
    seed: int = 1

    @property
    def specs(self) -> tuple[PresetSpec, ...]:
        return tuple(model.spec for model in self.models)


def no_arrivals() -> Iterator[Arrival]:
    return iter(())


def between(bounds: tuple[float, float], random: Random) -> float:
    least, most = bounds
    return least if most <= least else random.uniform(least, most)
