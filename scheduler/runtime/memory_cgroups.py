"""Where a process's memory cgroup is to be seen in the file system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def memory_cgroups(process: Path) -> Iterator[tuple[int, Path, Path]]:
    """Of the process (a folder of /proc): the cgroup's version, where its tree is mounted, and its
    folder there. Nothing where there is none, or it cannot be read."""
    try:
        groups = (process / "cgroup").read_text().splitlines()
        mounts = (process / "mountinfo").read_text().splitlines()
    except OSError:
        return
    for group in groups:
        number, controllers, path = group.split(":", 2)
        if number == "0":
            found = _folders(mounts, "cgroup2", "", path)
            yield from ((2, point, folder) for point, folder in found)
        elif "memory" in controllers.split(","):
            found = _folders(mounts, "cgroup", "memory", path)
            yield from ((1, point, folder) for point, folder in found)


def _folders(
    mounts: list[str], kind: str, controller: str, path: str
) -> Iterator[tuple[Path, Path]]:
    """A container may see a part of the tree only, mounted from `root` on."""
    for mount in mounts:
        fields, _, after = mount.partition(" - ")
        root, point = fields.split()[3:5]
        file_system, _, options = after.split(" ", 2)
        if file_system != kind or (controller and controller not in options.split(",")):
            continue
        inside = PurePosixPath(path)
        if inside.is_relative_to(root):
            yield Path(point), Path(point, inside.relative_to(root))
