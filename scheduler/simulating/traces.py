"""The synthetic traces, by name. `TRACES[name](Wish(...))` builds one.

Sizes are those of a team's machine: models of 1 to 70 GB, read from disk at 2 GB a second;
tenants of unequal size. Each trace says in `about` what it is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from scheduler.core.sizes import DeviceId, FixedShape, Need
from scheduler.core.values import PresetName, PresetSpec, Priority, TenantId

from .arrivals import SHORT, SHORT_AND_LONG, Answers, Rate, Stream, Talk, zipf
from .workload import FOREVER, Client, SimulatedModel, SimulatedTenant, Trace, no_arrivals

GIB = 1 << 30
GPU = DeviceId("gpu0")
DISK_BYTES_PER_SECOND = 2 * GIB
PROCESS_SECONDS = 1.0  # of a load, whatever the size
PATIENCE = 300.0
GRACE = 3600.0
"""A trace ends so long after its last request when somebody still waits."""

_SIZES_GIB = (5, 9, 2, 18, 5, 1, 40, 9, 5, 2, 24, 5)
_ONE_TENANT = (SimulatedTenant(TenantId("team")),)
_TEAMS = (
    SimulatedTenant(TenantId("products"), 3.0),
    SimulatedTenant(TenantId("research"), 1.0),
    SimulatedTenant(TenantId("batch"), 1.0),
    SimulatedTenant(TenantId("support"), 2.0),
)
_CLASSES = (
    *_TEAMS[:2],
    replace(_TEAMS[2], priority=Priority.LOW),
    replace(_TEAMS[3], priority=Priority.HIGH),
)
_DEMAND = (4.0, 2.0, 3.0, 1.0)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a trace is asked for; None is the trace's own."""

    requests: int | None = None
    models: int | None = None
    seed: int = 1


def simulated_models(count: int, *, parallel: int = 4) -> tuple[SimulatedModel, ...]:
    """So many, of the sizes that a team has; larger ones load longer and answer more slowly."""
    return tuple(
        _model(f"m{number:0{len(str(count))}d}", _SIZES_GIB[number % len(_SIZES_GIB)], parallel)
        for number in range(count)
    )


def _model(name: str, gib: int, parallel: int) -> SimulatedModel:
    seconds = PROCESS_SECONDS + gib * GIB / DISK_BYTES_PER_SECOND
    shape = FixedShape(((0, Need(((GPU, gib * GIB),))),))
    spec = PresetSpec(PresetName(name), parallel=parallel, load_seconds=seconds, fixed=shape)
    return SimulatedModel(spec, seconds, PROCESS_SECONDS, answer_speed=max(15.0, 90.0 - 2.0 * gib))


def _open(
    wish: Wish,
    name: str,
    about: str,
    *,
    requests: int,
    models: int,
    rate: Rate,
    places: int = 4,
    exponent: float = 1.0,
    parallel: int = 4,
    answers: Answers = SHORT_AND_LONG,
    tenants: tuple[SimulatedTenant, ...] = _ONE_TENANT,
    demand: tuple[float, ...] = (1.0,),
    patience: float = PATIENCE,
    limit: float = FOREVER,
    streamed_share: float = 1.0,
    talk: Talk | None = None,
) -> Trace:
    """A trace of one stream of requests; with `talk` its rate is that of conversations."""
    number = wish.requests or requests
    simulated = simulated_models(wish.models or models, parallel=parallel)
    stream = Stream(
        rate,
        [model.spec.name for model in simulated],
        zipf(len(simulated), exponent),
        range(len(tenants)),
        demand,
        answers,
        patience,
        limit,
        streamed_share,
        talk,
    )
    turns = 1.0 if talk is None else talk.turns
    return Trace(
        name,
        about,
        simulated,
        tenants,
        lambda: stream.arrivals(number, f"{name} {wish.seed}"),
        until=number / rate.mean / turns * 2 + GRACE,
        places=places,
        seed=wish.seed,
    )


def poisson(wish: Wish) -> Trace:
    about = "12 models by Zipf, 4 places, one request in two seconds, short and long answers"
    return _open(wish, "poisson", about, requests=20_000, models=12, rate=Rate(0.5))


def bursts(wish: Wish) -> Trace:
    about = "the same with a burst of 20 requests for one model every five minutes"
    rate = Rate(0.3, burst_every=300.0, burst_size=20)
    return _open(wish, "bursts", about, requests=20_000, models=12, rate=rate)


def diurnal(wish: Wish) -> Trace:
    about = "a day and a night: the rate swings between nearly none and twice its mean"
    return _open(wish, "diurnal", about, requests=40_000, models=12, rate=Rate(0.4, swing=0.95))


def zipf_many(wish: Wish) -> Trace:
    models = wish.models or 1000
    about = f"{models:,} models by Zipf with exponent 1.2, 8 places, short answers"
    return _open(
        wish, "zipf", about, requests=20_000, models=models, rate=Rate(0.2), places=8,
        exponent=1.2, answers=SHORT,
    )  # fmt: skip


def conversations(wish: Wish) -> Trace:
    """What has just been used is what comes next."""
    about = (
        "12 models by Zipf, 4 places; conversations of eight turns on average, some 40 seconds "
        "from one turn to the next, four teams"
    )
    return _open(
        wish, "conversations", about, requests=20_000, models=12,
        rate=Rate(0.06, swing=0.6, day=14_400.0), tenants=_TEAMS, demand=_DEMAND,
        talk=Talk(turns=8.0, pause=40.0),
    )  # fmt: skip


def busy(wish: Wish) -> Trace:
    """The one for speed: most requests are granted at once, some wait for a slot, few load."""
    about = "16 models by Zipf, 12 places, four requests a second, short answers"
    return _open(
        wish, "busy", about, requests=100_000, models=16, rate=Rate(4.0), places=12,
        exponent=1.2, answers=SHORT, tenants=_TEAMS, demand=_DEMAND, parallel=8,
    )  # fmt: skip


def mixed(wish: Wish) -> Trace:
    about = (
        "12 models by Zipf, 4 places, four teams of unequal size and weight, a swing over four "
        "hours, bursts, short and long answers"
    )
    rate = Rate(0.4, swing=0.6, burst_every=600.0, burst_size=12, day=14_400.0)
    return _open(
        wish, "mixed", about, requests=20_000, models=12, rate=rate,
        tenants=_TEAMS, demand=_DEMAND,
    )  # fmt: skip


def mixed_few(wish: Wish) -> Trace:
    about = "the mixed trace with 5 models and 2 places"
    rate = Rate(0.35, swing=0.6, burst_every=600.0, burst_size=12, day=14_400.0)
    return _open(
        wish, "mixed-few", about, requests=20_000, models=5, rate=rate, places=2,
        tenants=_TEAMS, demand=_DEMAND,
    )  # fmt: skip


def mixed_crowded(wish: Wish) -> Trace:
    about = "the mixed trace at twice the rate: more than the places can carry at its peaks"
    rate = Rate(0.8, swing=0.6, burst_every=600.0, burst_size=12, day=14_400.0)
    return _open(
        wish, "mixed-crowded", about, requests=20_000, models=12, rate=rate,
        tenants=_TEAMS, demand=_DEMAND,
    )  # fmt: skip


def mixed_classes(wish: Wish) -> Trace:
    """Priorities, which no rival has: some wait longer so that others wait less."""
    about = "the mixed trace with one team of low priority (30 % of it) and one of high (10 %)"
    return replace(mixed(wish), name="mixed-classes", about=about, tenants=_CLASSES)


def never_idle(wish: Wish) -> Trace:
    about = (
        "one place; three clients keep a model busy for ever; every five minutes somebody asks for "
        "another"
    )
    models = simulated_models(wish.models or 3, parallel=2)
    names = [model.spec.name for model in models]
    seconds = (wish.requests or 24_000) * 0.6
    newcomers = Stream(Rate(1 / 300), names[1:], [1.0] * len(names[1:]), (1,), answers=SHORT)
    tenants = (SimulatedTenant(TenantId("busy")), SimulatedTenant(TenantId("newcomer")))
    return Trace(
        "never-idle",
        about,
        models,
        tenants,
        lambda: newcomers.arrivals(int(seconds / 300), f"never-idle {wish.seed}"),
        until=seconds,
        places=1,
        clients=tuple(Client(names[0], begins=float(i)) for i in range(3)),
        seed=wish.seed,
    )


def never_idle_many(wish: Wish) -> Trace:
    """The mixed trace with clients that never stop."""
    base = mixed(replace(wish, requests=wish.requests or 2_000))
    return replace(
        base,
        name="never-idle-many",
        about="the mixed trace, and three clients on each of its four most popular models who "
        "never stop",
        until=base.until - GRACE,
        clients=tuple(Client(model.spec.name) for model in base.models[:4] for _ in range(3)),
    )


def impatient(wish: Wish) -> Trace:
    about = (
        "the models of the mixed trace; clients leave after 25 seconds without a beginning or 60 "
        "without an end, and three answers in ten are not streamed: the child works on to their end"
    )
    return _open(
        wish, "impatient", about, requests=20_000, models=12, rate=Rate(0.5),
        tenants=_TEAMS, demand=_DEMAND, patience=25.0, limit=60.0, streamed_share=0.7,
    )  # fmt: skip


def unequal_tenants(wish: Wish) -> Trace:
    """Scenario 10: weights 3:1, both always with more to ask, one place."""
    models = simulated_models(2)
    names = [model.spec.name for model in models]
    tenants = (SimulatedTenant(TenantId("three"), 3.0), SimulatedTenant(TenantId("one"), 1.0))
    return Trace(
        "unequal-tenants",
        "one place; two teams, weights 3 to 1, eight clients each, each team on its own model",
        models, tenants, no_arrivals, until=float(wish.requests or 36_000), places=1,
        clients=tuple(Client(names[i], i) for i in (0, 1) for _ in range(8)), seed=wish.seed,
    )  # fmt: skip


def memory(wish: Wish) -> Trace:
    """V3: by bytes, not by count: 1 to 40 GiB on a device of 64."""
    base = _open(
        wish, "memory",
        "12 models of 1 to 40 GiB by Zipf on a device of 64 GiB, no limit by count",
        requests=20_000, models=12, rate=Rate(0.4), places=0, tenants=_TEAMS, demand=_DEMAND,
    )  # fmt: skip
    return _with_capacity(base, 64)


def memory_many(wish: Wish) -> Trace:
    base = _open(
        wish, "memory-many",
        "60 models of 1 to 40 GiB by Zipf on a device of 80 GiB, no limit by count",
        requests=20_000, models=60, rate=Rate(0.3), places=0, exponent=1.1,
        tenants=_TEAMS, demand=_DEMAND,
    )  # fmt: skip
    return _with_capacity(base, 80)


def memory_flat(wish: Wish) -> Trace:
    base = _open(
        wish, "memory-flat",
        "24 models of 1 to 40 GiB, all asked for equally, short answers, on a device of 80 GiB",
        requests=20_000, models=24, rate=Rate(0.25), places=0, exponent=0.0, answers=SHORT,
        tenants=_TEAMS, demand=_DEMAND,
    )  # fmt: skip
    return _with_capacity(base, 80)


def faulty(wish: Wish) -> Trace:
    """A4: the third model never loads; the others die now and then."""
    base = mixed(wish)
    models = tuple(
        replace(model, crashes=0.2, failing=1.0 if number == 2 else 0.02)
        for number, model in enumerate(base.models)
    )
    about = (
        "the mixed trace; the third model never loads, every other one fails one load in fifty and "
        "dies once in five hours"
    )
    return replace(base, name="faulty", about=about, models=models)


def _with_capacity(base: Trace, gib: int) -> Trace:
    return replace(base, capacity=((GPU, gib * GIB),))


TRACES: dict[str, Callable[[Wish], Trace]] = {
    "poisson": poisson,
    "bursts": bursts,
    "diurnal": diurnal,
    "zipf": zipf_many,
    "conversations": conversations,
    "busy": busy,
    "mixed": mixed,
    "mixed-few": mixed_few,
    "mixed-crowded": mixed_crowded,
    "mixed-classes": mixed_classes,
    "impatient": impatient,
    "never-idle": never_idle,
    "never-idle-many": never_idle_many,
    "unequal-tenants": unequal_tenants,
    "memory": memory,
    "memory-many": memory_many,
    "memory-flat": memory_flat,
    "faulty": faulty,
}
