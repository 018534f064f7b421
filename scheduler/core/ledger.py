"""Who holds how many bytes on which device, and what is to be had (L1, L3, L4).

An instance's bytes are held from its start until it has exited: not until we decide to stop it.
After that they are *returning* for a few seconds: neither given out nor taken for somebody else's,
until a reading shows them free. Mapped files are held once, however many instances map them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from .placing import Free, missing
from .sizes import HOST, NO_NEED, Bytes, DeviceId, DeviceReading, FileId, Need
from .values import InstanceId

NOBODY: frozenset[InstanceId] = frozenset()


@dataclass(frozen=True, slots=True)
class Returning:
    """Bytes of one that has exited, and until when they may be on their way. `seen`: a reading has
    shown since that they are still in use."""

    size: int
    until: float
    seen: bool = False


@dataclass(slots=True)
class Device:
    """`external` is what others use of it, as far as that is known. `lowered`: somebody has lowered
    its limit, and what is held may be more than that."""

    reading: DeviceReading
    external: int = 0
    returning: list[Returning] = field(default_factory=list)
    lowered: bool = False

    @property
    def limit(self) -> int:
        """L1: what all instances together may hold. A margin stays free of the device, and a budget
        caps what is ours."""
        reading = self.reading
        left = reading.total - self.external - reading.margin
        return left if reading.budget is None else min(left, reading.budget)

    @property
    def ever(self) -> int:
        """The same with nothing of others on it."""
        reading = self.reading
        left = reading.total - reading.margin
        return left if reading.budget is None else min(left, reading.budget)

    @property
    def coming_back(self) -> int:
        return sum(back.size for back in self.returning)


class Ledger:
    def __init__(self, returning_seconds: float) -> None:
        self.devices: dict[DeviceId, Device] = {}
        self.held: dict[InstanceId, Need] = {}
        """By every instance that has not exited."""
        self._returning_seconds = returning_seconds
        self._exclusive: frozenset[DeviceId] = frozenset()
        self.next_return: float | None = None
        """When bytes that never showed as free count as somebody else's."""
        self.limits = False
        """L1: whether any device has reported; one that never did limits nothing."""
        self.version = 0
        """Another one whenever there is more or less to be had than before."""

    # What is read -------------------------------------------------------------------

    def read(
        self, readings: Iterable[DeviceReading], moving: Collection[InstanceId], now: float
    ) -> None:
        """L3. `moving` are those that take or give back memory at this moment. A device that is
        missing has gone, and limits nothing."""
        seen = self._seen()
        before, self.devices = self.devices, {}
        for reading in readings:
            known = before.get(reading.device)
            device = known or Device(reading)
            device.lowered = device.lowered or _is_lower(reading, device.reading)
            device.reading = reading
            self.devices[reading.device] = device
            if known is None or not reading.stale:
                device.returning = [back for back in device.returning if back.until > now]
                self._find_external(device, moving)
        self.limits = bool(self.devices)
        self._exclusive = frozenset(
            name for name, device in self.devices.items() if device.reading.exclusive
        )
        self._find_next_return()
        if self._seen() != seen:
            self.version += 1

    def _seen(self) -> list[tuple[DeviceId, int, int, int]]:
        devices = self.devices.items()
        return [(name, each.limit, each.ever, each.coming_back) for name, each in devices]

    def _find_external(self, device: Device, moving: Collection[InstanceId]) -> None:
        reading = device.reading
        used = reading.total - reading.free
        was_returning = bool(device.returning)
        # What loads may not have taken yet: it explains nothing that is in use.
        settled = self._held_on(reading.device, moving)
        if reading.foreign is not None:
            device.external = max(0, reading.foreign)
            _keep_returning(device, used - device.external - settled)
            return
        _keep_returning(device, used - device.external - settled)
        seen = max(0, used - self._held_on(reading.device) - device.coming_back)
        if was_returning or any(self._takes_part(i, reading.device) for i in moving):
            device.external = max(device.external, seen)
        else:
            device.external = seen

    def _takes_part(self, instance: InstanceId, device: DeviceId) -> bool:
        need = self.held.get(instance, NO_NEED)
        maps = device == HOST and bool(need.mapped)
        return maps or any(name == device and size for name, size in need.own)

    def _find_next_return(self) -> None:
        self.next_return = min(
            (back.until for device in self.devices.values() for back in device.returning),
            default=None,
        )

    def end_returns(self, now: float) -> bool:
        """Whether any was over. What was seen in use until now is somebody else's, until a reading
        says otherwise."""
        over = False
        for device in self.devices.values():
            ended = [back for back in device.returning if back.until <= now]
            if ended:
                over = True
                device.returning = [back for back in device.returning if back.until > now]
                if device.reading.foreign is None:
                    device.external += sum(back.size for back in ended if back.seen)
        self._find_next_return()
        self.version += over
        return over

    # What is held -------------------------------------------------------------------

    def hold(self, instance: InstanceId, need: Need) -> None:
        """Instead of what it held before."""
        if self.held.get(instance) != need:
            self.held[instance] = need
            self.version += 1

    def release(self, instance: InstanceId, now: float) -> None:
        """It has exited. On the host its pages are free with it; a driver may take its time."""
        need = self.held.pop(instance, NO_NEED)
        for name, size in need.own:
            device = self.devices.get(name)
            if device is not None and name != HOST and size:
                device.returning.append(Returning(size, now + self._returning_seconds))
        self._find_next_return()
        self.version += 1

    def mapped(self, gone: Collection[InstanceId] = NOBODY) -> dict[FileId, int]:
        """What of each file is in memory, once `gone` have exited."""
        files: dict[FileId, int] = {}
        for instance, need in self.held.items():
            if need.mapped and instance not in gone:
                for file, size in need.mapped:
                    files[file] = max(size, files.get(file, 0))
        return files

    def _held_on(self, device: DeviceId, without: Collection[InstanceId] = NOBODY) -> int:
        held = sum(
            size
            for instance, need in self.held.items()
            if instance not in without
            for name, size in need.own
            if name == device
        )
        return held + (sum(self.mapped(without).values()) if device == HOST else 0)

    # What is to be had ----------------------------------------------------------------

    def free(
        self,
        gone: Collection[InstanceId] = NOBODY,
        promised: Iterable[Need] = (),
        *,
        returned: bool = False,
        by_return: Collection[Need] = (),
    ) -> tuple[dict[DeviceId, int], dict[FileId, int]]:
        """L1: what may be taken of each known device once `gone` have exited (and with `returned`,
        once all that returns is back), beside what is `promised`, and beside what is promised
        `by_return`: what surely returns meets it first. And what of which file is mapped then,
        which costs nothing again."""
        free = {
            name: device.limit - (0 if returned else device.coming_back)
            for name, device in self.devices.items()
        }
        if not free:
            return free, {}
        for instance, need in self.held.items():
            if instance not in gone:
                _take(free, self._kept(need.own))
        files = self.mapped(gone)
        _take(free, ((HOST, size) for size in files.values()))
        for need in promised:
            self._promise(need, free, files, {})
        if by_return:
            met = {} if returned else self._surely_back()
            for need in by_return:
                self._promise(need, free, files, met)
        return free, files

    def _surely_back(self) -> dict[DeviceId, int]:
        """What returns where the driver tells whose memory is whose. Elsewhere it could not be told
        from what starts meanwhile, and who waits for it would wait for that as well."""
        return {
            name: device.coming_back
            for name, device in self.devices.items()
            if device.reading.foreign is not None
        }

    def _promise(
        self,
        need: Need,
        free: dict[DeviceId, int],
        files: dict[FileId, int],
        met: dict[DeviceId, int],
    ) -> None:
        """Takes it of `free`, but for what is in `met`, which it takes first."""
        for name, size in self._kept(need.own):
            by_return = min(size, met.get(name, 0))
            met[name] = met.get(name, 0) - by_return
            _take(free, ((name, size - by_return),))
        for file, size in need.mapped:
            _take(free, ((HOST, max(0, size - files.get(file, 0))),))
            files[file] = max(size, files.get(file, 0))

    def _kept(self, own: Bytes) -> Bytes:
        """What nobody else can have: of a device that serves one process at a time, all of it."""
        if not self._exclusive:
            return own
        return tuple(
            (name, max(size, self.devices[name].limit))
            if size and name in self._exclusive
            else (name, size)
            for name, size in own
        )

    def empty(self) -> Free:
        """The machine with nothing on it, of ours or of others."""
        return {name: device.ever for name, device in self.devices.items()}

    def roomy(
        self, staying: Collection[InstanceId]
    ) -> tuple[dict[DeviceId, int], dict[FileId, int]]:
        """With all but these gone, and all that returns free."""
        gone = {instance for instance in self.held if instance not in staying}
        return self.free(gone, returned=True)

    @property
    def lowered(self) -> bool:
        """Whether anybody has lowered a limit, and what is held may be more than that."""
        return any(device.lowered for device in self.devices.values())

    def over_limits(self, gone: Collection[InstanceId]) -> Bytes:
        """L1: by how much more is held, once `gone` have exited, of devices with lowered limits."""
        free, _ = self.free(gone, returned=True)
        return tuple(
            (name, -free[name])
            for name, device in self.devices.items()
            if device.lowered and free[name] < 0
        )

    def end_lowered(self) -> None:
        """It fits."""
        for device in self.devices.values():
            device.lowered = False

    def deficit(
        self,
        need: Need,
        gone: Collection[InstanceId],
        promised: Iterable[Need] = (),
        *,
        returned: bool = False,
        by_return: Collection[Need] = (),
    ) -> Bytes:
        """L1: the bytes missing for `need`; see `free`."""
        if not self.devices or not need:
            return ()
        free, files = self.free(gone, promised, returned=returned, by_return=by_return)
        return missing(need, free, files)

    def frees(self, *instances: InstanceId) -> Bytes:
        """What their exits give back, all together: of a file that others map as well, nothing."""
        freed: dict[DeviceId, int] = {}
        for instance in instances:
            for name, size in self._kept(self.held.get(instance, NO_NEED).own):
                freed[name] = freed.get(name, 0) + size
        files: dict[FileId, int] = {}
        for instance in instances:
            for file, size in self.held.get(instance, NO_NEED).mapped:
                files[file] = max(size, files.get(file, 0))
        if files:
            kept = self.mapped(instances)
            shared = sum(max(0, size - kept.get(file, 0)) for file, size in files.items())
            freed[HOST] = freed.get(HOST, 0) + shared
        return tuple(freed.items())


def _is_lower(after: DeviceReading, before: DeviceReading) -> bool:
    """Whether somebody allows less of it than before."""
    if after.margin > before.margin:
        return True
    return after.budget is not None and (before.budget is None or after.budget < before.budget)


def _take(free: dict[DeviceId, int], sizes: Iterable[tuple[DeviceId, int]]) -> None:
    for name, size in sizes:
        if name in free:
            free[name] -= size


def _keep_returning(device: Device, unexplained: int) -> None:
    """L4: of what returns, no more than is still in use; the oldest is back first."""
    left = max(0, unexplained)
    kept: list[Returning] = []
    for back in reversed(device.returning):
        if left <= 0:
            break
        kept.append(Returning(min(back.size, left), back.until, seen=True))
        left -= back.size
    device.returning = kept[::-1]


def left_of(deficit: Bytes, freed: Bytes) -> Bytes:
    """What is still missing when so much more is free."""
    free = dict(freed)
    return tuple(
        (device, short) for device, size in deficit if (short := size - free.get(device, 0)) > 0
    )


def helps(deficit: Bytes, freed: Bytes) -> int:
    """How many of the missing bytes this frees; 0 when it does not help."""
    free = dict(freed)
    return sum(min(short, free.get(device, 0)) for device, short in deficit)
