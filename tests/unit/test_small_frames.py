from __future__ import annotations

from routerproj.servers.small_frames import A_SECOND, AT_ONCE, SMALL, SmallFrames


def test_so_many_are_taken_at_once_and_so_many_a_second() -> None:
    frames = SmallFrames()

    assert not any(frames.are_too_many_with(0, 100.0) for _ in range(AT_ONCE))
    assert not any(frames.are_too_many_with(0, 101.0) for _ in range(A_SECOND))
    assert frames.are_too_many_with(SMALL - 1, 101.0)


def test_large_ones_are_not_counted() -> None:
    frames = SmallFrames()

    assert not any(frames.are_too_many_with(SMALL, 100.0) for _ in range(AT_ONCE * 3))
