"""What of a GPU's memory belongs to others, by the driver's list of processes."""

from __future__ import annotations

from scheduler.runtime.devices.gpu import GpuFigures

GIB = 1 << 30
OURS, THEIRS = 100, 200


def foreign(used, processes, *, reserved: int | None = 0, ours=(OURS,), exist=(OURS, THEIRS)):
    seen = GpuFigures(24 * GIB, 24 * GIB - (reserved or 0) - used, reserved, processes)
    return seen.foreign(ours, exists=lambda pid: pid in exist)


def test_an_unused_gpu_has_no_foreign_bytes():
    assert foreign(0, {}) == 0


def test_it_is_what_others_use():
    assert foreign(9 * GIB, {OURS: 5 * GIB, THEIRS: 4 * GIB}) == 4 * GIB


def test_what_the_driver_reserves_is_foreign():
    assert foreign(5 * GIB, {OURS: 5 * GIB}, reserved=GIB) == GIB


def test_a_little_that_belongs_to_no_process_is_foreign():
    assert foreign(5 * GIB + 1000, {OURS: 5 * GIB}) == 1000


def test_an_exited_child_is_foreign_until_the_driver_has_forgotten_it():
    assert foreign(5 * GIB, {OURS: 5 * GIB}, ours=()) == 5 * GIB


def test_without_a_list_it_is_not_known():
    assert foreign(5 * GIB, None) is None


def test_pids_of_another_machine_or_container_make_it_unknown():
    assert foreign(5 * GIB, {OURS: 4 * GIB, 999: GIB}) is None


def test_a_list_that_lacks_processes_makes_it_unknown():
    assert foreign(5 * GIB, {}) is None
    assert foreign(9 * GIB, {OURS: 5 * GIB}) is None


def test_an_old_driver_may_reserve_more_than_it_tells():
    assert foreign(5 * GIB + GIB // 2, {OURS: 5 * GIB}, reserved=None) == GIB // 2
    assert foreign(7 * GIB, {OURS: 5 * GIB}, reserved=None) is None
