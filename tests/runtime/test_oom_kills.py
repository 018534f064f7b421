"""The kernel's own count of those whom it killed for memory, as cgroups show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.runtime.oom_kills import SEEN_WITHIN_SECONDS, OomKills, oom_kill_counter

V2 = "low 0\nhigh 0\nmax 12\noom 3\noom_kill {}\noom_group_kill 0\n"
V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"


class Counted:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "memory.events"
        self.now = 0.0
        self.is_now(7)
        self.kills = OomKills(self.file, lambda: self.now)

    def is_now(self, count: int) -> None:
        self.file.write_text(V2.format(count))


@pytest.fixture
def counted(tmp_path):
    return Counted(tmp_path)


def test_kills_before_our_time_are_nobodys(counted):
    assert not counted.kills.claim()


def test_a_kill_is_claimed_once(counted):
    counted.is_now(8)

    assert [counted.kills.claim() for _ in range(2)] == [True, False]


def test_each_of_two_kills_is_claimed(counted):
    counted.is_now(9)

    assert [counted.kills.claim() for _ in range(3)] == [True, True, False]


def test_a_kill_that_was_seen_a_moment_before_the_childs_end_is_its_own(counted):
    counted.is_now(8)
    counted.kills.look()
    counted.now = SEEN_WITHIN_SECONDS - 1

    assert counted.kills.claim()


def test_a_kill_that_was_seen_long_before_is_not(counted):
    counted.is_now(8)
    counted.kills.look()
    counted.now = SEEN_WITHIN_SECONDS + 1

    assert not counted.kills.claim()


def test_where_nothing_is_counted_nothing_is_said():
    assert not OomKills(None).claim()


@pytest.mark.parametrize("text", [None, "oom_kill many\n"])
def test_a_count_that_cannot_be_read_any_more_is_given_up(counted, caplog, text):
    if text is None:
        counted.file.unlink()
    else:
        counted.file.write_text(text)

    assert [counted.kills.claim() for _ in range(2)] == [False, False]
    assert caplog.text.count("cannot be counted") == 1


def proc(tmp_path: Path, groups: str, mounts: str) -> Path:
    (tmp_path / "cgroup").write_text(groups)
    (tmp_path / "mountinfo").write_text(mounts)
    return tmp_path


def counter(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / name).write_text(text.format(0))
    return folder / name


def test_a_service_of_cgroup_v2_has_its_own_count(tmp_path):
    tree = tmp_path / "tree"
    file = counter(tree / "system.slice/corral.service", "memory.events", V2)
    mounts = f"29 23 0:26 / {tree} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"

    here = proc(tmp_path, "0::/system.slice/corral.service\n", mounts)

    assert oom_kill_counter(here) == file


def test_the_count_of_the_group_alone_is_better_than_that_of_all_below_it(tmp_path):
    counter(tmp_path / "tree/app", "memory.events", V2)
    (tmp_path / "tree/app/memory.events.local").write_text(V2.format(0))
    mounts = f"29 23 0:26 / {tmp_path}/tree rw - cgroup2 cgroup2 rw\n"

    found = oom_kill_counter(proc(tmp_path, "0::/app\n", mounts))

    assert found == tmp_path / "tree/app/memory.events.local"


def test_a_container_sees_its_own_part_of_the_tree(tmp_path):
    file = counter(tmp_path / "tree", "memory.oom_control", V1)
    mounts = (
        f"31 23 0:28 /docker/1f /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
        f"35 31 0:32 /docker/1f {tmp_path}/tree ro,nosuid master:13 - cgroup cgroup rw,memory\n"
    )

    here = proc(tmp_path, "4:memory:/docker/1f\n1:cpu:/docker/1f\n0::/\n", mounts)

    assert oom_kill_counter(here) == file


@pytest.mark.parametrize(
    "groups",
    ["", "0::/\n", "0::/../elsewhere\n", "4:memory:/gone\n"],
    ids=["none", "root of v2", "outside", "gone"],
)
def test_there_may_be_none(tmp_path, groups):
    mounts = f"29 23 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"

    assert oom_kill_counter(proc(tmp_path, groups, mounts)) is None


def test_this_machine_may_have_one_and_is_asked_without_harm():
    found = oom_kill_counter()

    assert found is None or "oom_kill" in found.read_text()
