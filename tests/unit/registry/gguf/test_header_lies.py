"""A header that lies is refused with a sentence, at once and in little memory."""

from __future__ import annotations

import ctypes
import io
import os
import struct
from pathlib import Path

import pytest
from gguf.constants import GGMLQuantizationType
from hypothesis import given
from hypothesis import strategies as st

from models_registry.engine_path import llama_server
from models_registry.gguf.contents import (
    MOST_STRINGS,
    MOST_TENSORS,
    TYPES,
    Contents,
    NotReadable,
    contents_of,
)
from models_registry.gguf.header import UnreadableHeader, header_of, read_header
from models_registry.gguf.header_child import MEMORY_LIMIT
from tests.support.made_once import CACHE
from tests.support.tiny_model import tiny_model

from .files import ARRAY, Q4_0, STRING, Gguf, array, info, key, number, said, text

HUGE = 1 << 60
NAMED = said("general.architecture", "llama")


def contents(data: bytes, size: int | None = None) -> Contents:
    return contents_of(io.BytesIO(data), len(data) if size is None else size)


def test_a_true_one_is_read() -> None:
    file = Gguf(
        keys=(NAMED, number("llama.block_count", 1), array("tokenizer.ggml.tokens", STRING, 2,
              text("a") + text("b")), array("llama.heads", 4, 2, struct.pack("<II", 3, 4))),
        tensors=(info("token_embd.weight", 8, 2), info("blk.0.a", 32, kind=Q4_0, offset=64)),
    )  # fmt: skip

    found = contents(file.written())

    assert found.values["llama.heads"] == [3, 4]
    assert found.lengths == {"tokenizer.ggml.tokens": 2}
    assert [(each.kind, each.size) for each in found.tensors] == [("F32", 64), ("Q4_0", 18)]
    assert found.tensors[1].begin - found.tensors[0].begin == 64


LIES = {
    "another beginning": (Gguf(magic=b"GGML"), "does not begin as a GGUF"),
    "an old version": (Gguf(version=1), "version 1"),
    "a later version": (Gguf(version=4), "version 4"),
    "big-endian": (Gguf(order=">"), "big-endian"),
    "more tensors than bytes": (Gguf(claims={"tensors": HUGE}), "claims .* tensors"),
    "more tensors than follow": (Gguf(claims={"tensors": 8}), "tensor|dimensions|cut off"),
    "more keys than bytes": (Gguf(claims={"keys": HUGE}), "claims .* keys"),
    "a long key": (Gguf(keys=(struct.pack("<Q", HUGE),)), "a name of"),
    "a text past the end": (
        Gguf(keys=(key("general.name", STRING, struct.pack("<Q", HUGE)),)), "cut off",
    ),
    "a text that is a little too long": (
        Gguf(keys=(key("general.name", STRING, struct.pack("<Q", 4000)),)), "cut off",
    ),
    "an array past the end": (Gguf(keys=(array("a", 4, HUGE),)), "more than fit"),
    "an array of texts past the end": (Gguf(keys=(array("a", STRING, HUGE),)), "more than fit"),
    "an array of arrays": (Gguf(keys=(array("a", ARRAY, 1),)), "array of arrays"),
    "an array of an unknown kind": (Gguf(keys=(array("a", 77, 1),)), "unknown kind 77"),
    "a value of an unknown kind": (Gguf(keys=(key("a", 99, b""),)), "unknown kind 99"),
    "a key said twice": (Gguf(keys=(NAMED, NAMED)), "twice"),
    "an alignment of nothing": (Gguf(keys=(number("general.alignment", 0),)), "alignment is 0"),
    "a tensor past the end": (Gguf(tensors=(info("a", 1 << 20),)), "cut off, or lies"),
    "an offset past the end": (Gguf(tensors=(info("a", 1, offset=1 << 50),)), "cut off, or lies"),
    "sides whose product overflows": (
        Gguf(tensors=(info("a", 1 << 40, 1 << 40, 1 << 40),)), "cut off, or lies",
    ),
    "a negative side": (Gguf(tensors=(info("a", -8),)), "has the shape"),
    "a side that is no number of blocks": (Gguf(tensors=(info("a", 33, kind=Q4_0),)), "the shape"),
    "nine dimensions": (Gguf(tensors=(info("a", 1, dimensions=9),)), "9 dimensions"),
    "an unknown type": (Gguf(tensors=(info("a", 1, kind=4),)), "unknown type 4"),
    "two tensors of one name": (
        Gguf(tensors=(info("a", 1), info("a", 1, offset=32))), "two tensors named a",
    ),
    "two tensors in one place": (
        Gguf(tensors=(info("a", 16), info("b", 16, offset=32))), "another one lies",
    ),
    "a tensor between two places": (Gguf(tensors=(info("a", 1, offset=7),)), "another one lies"),
    "nothing": (Gguf(magic=b"", keys=(), data=b""), "does not begin"),
}  # fmt: skip


@pytest.mark.parametrize(("file", "told"), LIES.values(), ids=LIES)
def test_a_lie_is_found(file: Gguf, told: str) -> None:
    with pytest.raises(NotReadable, match=told):
        contents(file.written())


def test_every_cut_is_noticed() -> None:
    whole = Gguf(
        keys=(NAMED, array("tokenizer.ggml.tokens", STRING, 1, text("a"))),
        tensors=(info("a", 64),),
    ).written()

    for kept in range(len(whole)):
        with pytest.raises(NotReadable):
            contents(whole[:kept])
    assert len(contents(whole).tensors) == 1


def test_a_file_that_shrinks_while_it_is_read_is_noticed() -> None:
    with pytest.raises(NotReadable, match="shorter"):
        contents(Gguf().written()[:20], size=1 << 20)


@given(st.binary(max_size=300))
def test_whatever_follows_the_magic_is_read_or_refused(data: bytes) -> None:
    file = b"GGUF" + struct.pack("<I", 3) + data
    try:
        found = contents(file)
    except NotReadable:
        return
    assert all(tensor.end <= len(file) for tensor in found.tensors)


@pytest.mark.engine
def test_types_are_as_large_as_the_engine_has_them() -> None:
    ggml = ctypes.CDLL(str(llama_server().parent.parent / "lib" / "libggml-base.so"))
    ggml.ggml_type_name.restype = ctypes.c_char_p
    ggml.ggml_blck_size.restype = ctypes.c_int64
    ggml.ggml_type_size.restype = ctypes.c_size_t

    assert {
        number: (
            ggml.ggml_type_name(number).decode().upper(),
            ggml.ggml_blck_size(number),
            ggml.ggml_type_size(number),
        )
        for number in TYPES
    } == TYPES
    assert {kind.value for kind in GGMLQuantizationType} <= TYPES.keys()


# By the program, on real files


def test_a_bomb_of_empty_texts_ends_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gguf"
    path.write_bytes(Gguf(keys=(array("a", STRING, 1 << 34),), data=b"").written())
    os.truncate(path, 1 << 40)  # with holes: it takes no place on the disk

    with pytest.raises(UnreadableHeader, match=f"more than {MOST_STRINGS} strings"):
        read_header(path)


def test_a_bomb_of_names_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gguf"
    path.write_bytes(Gguf(claims={"tensors": MOST_TENSORS}, data=b"").written())
    os.truncate(path, 1 << 40)

    with pytest.raises(UnreadableHeader, match="two tensors named"):
        read_header(path)


def test_what_takes_too_long_is_stopped_and_tried_again(tmp_path: Path) -> None:
    path = tiny_model(tmp_path)

    with pytest.raises(UnreadableHeader, match="not read within"):
        read_header(path, seconds=0.001)
    assert read_header(path).block_count == 1


def test_a_pattern_without_end_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(Gguf(tensors=(info("a" * 60, 1),)).written())

    with pytest.raises(UnreadableHeader, match="not read within"):
        read_header(path, placed=(("(a*)*b", True),), seconds=1)


def test_a_pattern_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnreadableHeader, match="unterminated"):
        read_header(tiny_model(tmp_path), placed=(("(", True),))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, make: object) -> None:
    path = tmp_path / "a.gguf"
    make(path)  # type: ignore[operator]

    with pytest.raises(UnreadableHeader, match=r"not a file|directory"):
        read_header(path)


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnreadableHeader, match=r"a\.gguf: No such file"):
        read_header(tmp_path / "a.gguf")


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(Gguf(version=1).written())
    with pytest.raises(UnreadableHeader):
        read_header(path)
    path.write_bytes(Gguf(tensors=(info("token_embd.weight", 8),), data=bytes(32)).written())

    assert read_header(path).input_bytes == 32
    assert read_header(path) is read_header(path)


def test_shards_are_read_together(tmp_path: Path) -> None:
    first, second = (tmp_path / f"a-0000{number}-of-00002.gguf" for number in (1, 2))
    first.write_bytes(Gguf(tensors=(info("token_embd.weight", 8),)).written())
    second.write_bytes(Gguf(tensors=(info("blk.0.a", 16),)).written())

    header = read_header(first)
    assert header.layers == (64, 32)
    assert header.mapped == (96, 96, 32)

    second.write_bytes(Gguf(tensors=(info("token_embd.weight", 8),)).written() + b"changed")
    with pytest.raises(UnreadableHeader, match="a tensor of the same name"):
        read_header(first)


def test_the_program_has_little_memory() -> None:
    assert MEMORY_LIMIT <= 1 << 30


# What it says of itself


def told(**values: object) -> dict[str, object]:
    claims = {"general.architecture": "llama", **values}
    return {"values": claims, "lengths": {}, "tensors": [], "mapped": [0, 0]}


@pytest.mark.parametrize("count", [-1, 1 << 31, "many", 2000])
def test_an_impossible_number_of_layers_is_refused(count: object) -> None:
    with pytest.raises(UnreadableHeader, match="layers"):
        header_of(told(**{"llama.block_count": count}))


def test_without_an_architecture_it_is_none_that_we_know() -> None:
    with pytest.raises(UnreadableHeader, match="no architecture"):
        header_of(told(**{"general.architecture": 7}))


@pytest.mark.parametrize("found", [None, "8", True, -1, 1 << 40, [8]])
def test_a_missing_or_unfit_number_is_told(found: object) -> None:
    values = {} if found is None else {"llama.context_length": found}

    with pytest.raises(UnreadableHeader, match=r"no number llama\.context_length"):
        header_of(told(**values)).context_train  # noqa: B018


def test_too_few_numbers_for_its_layers_are_told() -> None:
    header = header_of(told(**{"llama.block_count": 3, "llama.attention.head_count_kv": [1, 2]}))

    with pytest.raises(UnreadableHeader, match="2 unfit values"):
        header.per_block("attention.head_count_kv")


def test_the_real_model_is_read_whole() -> None:
    header = read_header(tiny_model(CACHE / "measured", "tiny"))

    assert header.vocabulary == 49152
    assert header.weights == header.input_bytes + sum(header.layers) - 49152 * 64 * 4
    assert header.mapped_bytes(None) == header.mapped[0] == header.weights
    assert header.mapped_bytes(99) == header.input_bytes


@pytest.mark.parametrize("tokens", [(1 << 28) + 1, 2**31, 2**32 - 1])
def test_a_context_that_no_model_has_is_refused_before_an_engine_sees_it(tokens: int) -> None:
    values = {"general.architecture": "llama", "llama.context_length": tokens}

    with pytest.raises(UnreadableHeader, match=f"claims a context of {tokens:,} tokens"):
        _ = header_of({"values": values, "lengths": {}, "tensors": [], "mapped": [0]}).context_train
