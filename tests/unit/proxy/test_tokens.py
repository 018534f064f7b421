from __future__ import annotations

import os

from proxy.tokens import DRAWN, hex_name


def test_no_name_comes_twice_nor_is_a_part_of_another() -> None:
    sizes = [12, 16] * DRAWN
    names = [hex_name(size) for size in sizes]

    assert [len(name) for name in names] == [2 * size for size in sizes]
    assert len({name[:24] for name in names}) == len(names)
    assert all(set(name) <= set("0123456789abcdef") for name in names)


def test_a_process_that_was_forked_off_does_not_go_on_with_the_names_of_the_other() -> None:
    hex_name(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, hex_name(16).encode())
        os._exit(0)

    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reading, 64).decode() != hex_name(16)
    os.close(reading)
    os.close(writing)
