"""What a reading of the devices changes in what an instance holds."""

from __future__ import annotations

import pytest

from scheduler.core.instances import Instance, Lease
from scheduler.core.sizes import HOST, ON_HOST, DeviceId, DeviceReading, FileId, Grant, Need
from scheduler.core.states import State
from scheduler.core.values import InstanceId, PresetName, PresetSpec, RequestId, TenantId
from scheduler.runtime.devices.device import Device
from scheduler.runtime.memory import corrected, why_there

MIB, GIB = 1 << 20, 1 << 30
CUDA = DeviceId("CUDA0")
PID = 7


def instance(child: State, *leases: RequestId) -> Instance:
    made = Instance(InstanceId(1), PresetSpec(PresetName("a")), 0.0, 0.0)
    made.child = child
    made.leases = {lease: Lease(TenantId(""), 1.0, 0.0) for lease in leases}
    return made


def shown(device: DeviceId, *processes: tuple[int, int]) -> Device:
    reading = DeviceReading(device, 24 * GIB, 4 * GIB, foreign=0)
    return Device(reading, "", device, processes=processes)


def held(size: int) -> Need:
    return Need(((CUDA, size),)) if size else Need()


@pytest.mark.parametrize(
    ("child", "before", "processes", "after"),
    [
        (State.LOADED, 20 * GIB, ((PID, 21 * GIB),), 21 * GIB),
        (State.LOADED, 20 * GIB, ((PID, 3 * GIB),), None),  # the look began while it loaded
        (State.LOADED, 20 * GIB, (), None),
        (State.SLEEPING, 20 * GIB, ((PID, GIB),), GIB),
        (State.SLEEPING, 0, ((PID, GIB),), GIB),
        (State.SLEEPING, GIB, (), 0),
        (State.LOADING, GIB, ((PID, 3 * GIB),), None),
    ],
)
def test_the_driver_is_believed_where_it_shows_more_and_of_a_sleeper_always(
    child: State, before: int, processes: tuple[tuple[int, int], ...], after: int | None
) -> None:
    found = corrected(instance(child), held(before), PID, [shown(CUDA, *processes)])

    assert found == (None if after is None else held(after))


def test_what_sleeps_under_a_lease_releases_nothing() -> None:
    sleeper = instance(State.SLEEPING, RequestId(1))

    assert corrected(sleeper, held(20 * GIB), PID, [shown(CUDA, (PID, GIB))]) is None


def test_on_the_host_a_sleeper_keeps_what_it_has_and_what_is_awake_what_it_may_grow_to() -> None:
    host = [shown(HOST, (PID, GIB))]

    assert corrected(instance(State.SLEEPING), Need(), PID, host) == Need(((HOST, GIB),))
    assert corrected(instance(State.LOADED), Need(), PID, host) is None


def test_what_it_is_said_to_need_has_the_file_that_it_maps() -> None:
    need = Need(((CUDA, 300 * MIB), (HOST, 200 * MIB)), ((FileId("a"), 90 * MIB),))

    told = why_there(Grant(ON_HOST, 0, need), [("available_Host", 500 * MIB)])

    assert "it needs 300 MiB on CUDA0, 290 MiB on Host, 90 MiB of that for its mapped file" in told
    assert told.endswith("; there were 500 MiB on Host")
