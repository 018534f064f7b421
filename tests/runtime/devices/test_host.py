"""The host's memory, as files in /proc and of cgroups tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.core.sizes import HOST
from scheduler.runtime.devices.host import Host

GIB = 1 << 30
MIB = 1 << 20
KIB = 1024


class Machine:
    """A /proc and a cgroup tree under `folder`. Bytes."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.groups = folder / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        self.now = 0.0
        self.host = Host(self.proc, lambda: self.now)
        self.has()
        self.lives_in(())

    def has(self, total=32 * GIB, available=20 * GIB, anon=6 * GIB, shmem=GIB, **more) -> None:
        rows = {"MemTotal": total, "MemAvailable": available, "AnonPages": anon, "Shmem": shmem}
        rows |= more
        lines = [f"{name}: {size // KIB} kB" for name, size in rows.items()]
        (self.proc / "meminfo").write_text("\n".join([*lines, "HugePages_Total: 3", ""]))

    def lives_in(self, lines: tuple[str, ...], mounts: tuple[str, ...] = ()) -> None:
        (self.proc / "self" / "cgroup").write_text("".join(line + "\n" for line in lines))
        (self.proc / "self" / "mountinfo").write_text("".join(line + "\n" for line in mounts))

    def process(self, pid: int, anon: int, shmem: int = 0, children: str = "") -> None:
        (self.proc / str(pid) / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
        (self.proc / str(pid) / "status").write_text(
            f"Name:\tllama-server\nVmRSS:\t999999 kB\nRssAnon:\t{anon // KIB} kB\n"
            f"RssFile:\t777777 kB\nRssShmem:\t{shmem // KIB} kB\nThreads:\t9\n"
        )
        (self.proc / str(pid) / "task" / str(pid) / "children").write_text(children)

    def v2(self, path: str, limit="max", high="max", current=0, **stat: int) -> None:
        mount = f"30 20 0:5 / {self.groups} rw - cgroup2 cgroup2 rw"
        self.lives_in((f"0::{path}",), (mount,))
        self.group(path, {"memory.max": limit, "memory.high": high, "memory.current": current})
        self.stat(path, stat)

    def v1(self, path: str, limit: int, current: int, **stat: int) -> None:
        mount = f"35 31 0:32 / {self.groups} rw - cgroup cgroup rw,memory"
        self.lives_in((f"4:memory:{path}", "0::/"), (mount,))
        names = {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": current}
        self.group(path, names)
        self.stat(path, stat)

    def group(self, path: str, files: dict[str, object]) -> None:
        folder = self.groups / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name, said in files.items():
            (folder / name).write_text(f"{said}\n")

    def stat(self, path: str, stat: dict[str, int]) -> None:
        lines = "".join(f"{name} {value}\n" for name, value in stat.items())
        (self.groups / path.lstrip("/") / "memory.stat").write_text(lines)

    def read(self, *ours: int):
        (device,) = self.host.read(ours)
        return device

    def figures(self, *ours: int) -> tuple[int, int, int | None]:
        reading = self.read(*ours).reading
        return reading.total, reading.free, reading.foreign


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_without_a_cgroup_the_machine_counts(machine):
    assert machine.read().reading.device == HOST
    assert machine.figures() == (32 * GIB, 20 * GIB, 7 * GIB)


def test_our_childrens_own_memory_is_not_foreign(machine):
    machine.process(7, anon=2 * GIB, shmem=GIB)

    assert machine.figures(7) == (32 * GIB, 20 * GIB, 4 * GIB)


def test_a_child_that_has_exited_meanwhile_has_nothing(machine):
    assert machine.figures(7) == (32 * GIB, 20 * GIB, 7 * GIB)


def test_pages_of_files_are_nobodys(machine):
    machine.has(Cached=12 * GIB, Mapped=9 * GIB)

    assert machine.figures() == (32 * GIB, 20 * GIB, 7 * GIB)


def test_what_the_kernel_keeps_is_foreign(machine):
    machine.has(SUnreclaim=GIB, Hugetlb=2 * GIB)

    assert machine.figures()[2] == 10 * GIB


def test_swap_counts_nowhere(machine):
    machine.has(SwapTotal=64 * GIB, SwapFree=64 * GIB)

    assert machine.figures() == (32 * GIB, 20 * GIB, 7 * GIB)


def test_a_cgroups_limit_is_the_total(machine):
    machine.v2("/corral", limit=8 * GIB, current=3 * GIB, anon=2 * GIB, file=GIB)

    assert machine.figures() == (8 * GIB, 5 * GIB, 2 * GIB)


def test_file_pages_in_a_cgroup_can_be_had(machine):
    machine.v2(
        "/corral",
        limit=8 * GIB,
        current=7 * GIB,
        anon=GIB,
        inactive_file=2 * GIB,
        active_file=3 * GIB,
        slab_reclaimable=GIB // 2,
    )

    assert machine.figures() == (8 * GIB, 6 * GIB + GIB // 2, GIB)


def test_shared_memory_in_a_cgroup_cannot_be_had(machine):
    machine.v2("/corral", limit=8 * GIB, current=4 * GIB, file=3 * GIB, shmem=3 * GIB, anon=GIB)

    assert machine.figures() == (8 * GIB, 4 * GIB, 4 * GIB)


def test_where_a_cgroup_is_throttled_it_ends(machine):
    machine.v2("/corral", limit=8 * GIB, high=6 * GIB, current=GIB, anon=GIB)

    assert machine.figures() == (6 * GIB, 5 * GIB, GIB)


def test_a_cgroup_without_a_limit_limits_nothing(machine):
    machine.v2("/corral", current=GIB, anon=GIB)

    assert machine.figures() == (32 * GIB, 20 * GIB, 7 * GIB)


def test_a_full_machine_is_felt_in_a_small_cgroup(machine):
    machine.has(available=3 * GIB, anon=29 * GIB, shmem=0)
    machine.v2("/corral", limit=8 * GIB, current=2 * GIB, anon=2 * GIB)
    machine.process(7, anon=2 * GIB)

    # 27 GiB of 32 are others'; of 8 GiB 3 can be used beside what our child has
    assert machine.figures(7) == (8 * GIB, 3 * GIB, 3 * GIB)


def test_the_limit_of_a_cgroup_around_ours_holds(machine):
    machine.v2("/slice/corral", limit=8 * GIB, current=GIB, anon=GIB)
    machine.group(
        "/slice", {"memory.max": 6 * GIB, "memory.high": "max", "memory.current": 4 * GIB}
    )
    machine.stat("/slice", {"anon": 4 * GIB})
    machine.process(7, anon=GIB)

    assert machine.figures(7) == (6 * GIB, 2 * GIB, 3 * GIB)


def test_cgroups_of_the_first_version_limit_too(machine):
    machine.v1(
        "/docker/x",
        limit=8 * GIB,
        current=5 * GIB,
        total_inactive_file=2 * GIB,
        total_active_file=GIB,
        total_rss=2 * GIB,
        inactive_file=1,
    )

    assert machine.figures() == (8 * GIB, 6 * GIB, 2 * GIB)


def test_the_first_version_without_a_limit_says_a_huge_one(machine):
    machine.v1("/docker/x", limit=9223372036854771712, current=5 * GIB, total_rss=2 * GIB)

    assert machine.figures() == (32 * GIB, 20 * GIB, 7 * GIB)


def test_a_container_sees_its_own_part_of_the_tree(machine):
    machine.v2("/docker/x", limit=8 * GIB, current=GIB, anon=GIB)
    mount = f"30 20 0:5 /docker/x {machine.groups / 'docker/x'} rw - cgroup2 cgroup2 rw"
    machine.lives_in(("0::/docker/x",), (mount,))

    assert machine.figures() == (8 * GIB, 7 * GIB, GIB)


def test_more_used_than_allowed_leaves_nothing_free(machine):
    machine.v2("/corral", limit=2 * GIB, current=3 * GIB, anon=3 * GIB)

    assert machine.figures() == (2 * GIB, 0, 2 * GIB)


@pytest.mark.parametrize(
    "meminfo", [None, "", "MemTotal: 100 kB\n", "MemTotal: 9 kB\nMemAvailable: x kB\n"]
)
def test_figures_that_cannot_be_read_leave_the_last_known(machine, meminfo, caplog):
    known = machine.figures()
    file = machine.proc / "meminfo"
    if meminfo is None:
        file.unlink()
    else:
        file.write_text(meminfo)
    machine.now = 3.0
    stale = [machine.read() for _ in range(3)]

    assert (stale[-1].reading.total, stale[-1].reading.free, stale[-1].reading.foreign) == known
    assert stale[-1].stale == 3.0
    assert stale[-1].warning
    assert len(caplog.records) == 1  # not one a second

    machine.has()
    assert machine.read().stale is None
    assert machine.read().warning == ""


@pytest.mark.parametrize("nonsense", [{"available": 99 * GIB}, {"total": 0, "available": 0}])
def test_nonsense_leaves_the_last_known(machine, nonsense):
    known = machine.figures()
    machine.has(**nonsense)

    assert machine.figures() == known
    assert machine.read().stale is not None


def test_a_cgroup_that_goes_is_looked_for_anew(machine):
    machine.v2("/old", limit=8 * GIB, current=GIB, anon=GIB)
    machine.read()
    for file in (machine.groups / "old").iterdir():
        file.unlink()
    machine.v2("/new", limit=4 * GIB, current=GIB, anon=GIB)

    assert machine.read().stale is not None
    assert machine.figures() == (4 * GIB, 3 * GIB, GIB)


def test_nothing_is_known_before_it_was_read(machine):
    (machine.proc / "meminfo").unlink()

    assert machine.host.read(()) == ()


def test_this_machine_can_be_read():
    (device,) = Host().read(())

    assert 0 < device.reading.free <= device.reading.total
    assert 0 < device.reading.foreign < device.reading.total
