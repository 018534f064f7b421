"""Many headers are read in few processes, and one bad file costs only its own answer."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from models_registry.engine_path import llama_server
from models_registry.gguf import metadata
from models_registry.gguf.file_types import NAMES, engine_words
from models_registry.gguf.metadata import Answer, Ask, Metadata, ReaderBroken, read_many
from tests.support.many_models import SHAPES, many_models, parameters
from tests.support.tiny_model import real_model, tiny_model
from tests.support.tiny_projector import tiny_projector

from .files import STRING, Gguf, array, info, number, said


def read(*asks: Ask) -> list[Answer]:
    return sorted(read_many(asks), key=lambda answer: answer.ask.id)


def read_one(path: Path, **more: str) -> Answer:
    (answer,) = read(Ask(1, str(path), **more))
    return answer


def told(path: Path, **more: str) -> Metadata:
    answer = read_one(path, **more)
    assert (answer.read, answer.error) == (True, "")
    return answer.metadata


def written(path: Path, *keys: bytes, tensors: tuple[bytes, ...] = ()) -> Path:
    path.write_bytes(Gguf(keys=keys, tensors=tensors).written())
    return path


def test_the_figures_are_those_that_the_engine_reports() -> None:
    found = told(real_model())  # tests/runtime/test_child_lines.py has the engine's own words

    assert (found.parameters, found.weights) == (134515008, 96576768)
    assert (found.context_length, found.embedding_length) == (8192, 576)
    assert (found.vocabulary, found.tokenizer, found.quantisation) == (49152, "gpt2", "Q4_1")
    assert (found.architecture, found.layers) == ("llama", 30)
    assert (found.input_modalities, found.output_modalities) == (["text"], ["text"])
    assert "<|im_start|>" in found.chat_template


@pytest.mark.engine
def test_file_types_have_the_engines_names() -> None:
    llama = ctypes.CDLL(str(llama_server().parent.parent / "lib" / "libllama.so"))
    llama.llama_ftype_name.restype = ctypes.c_char_p

    engines = {number: llama.llama_ftype_name(number).decode() for number in range(64)}

    known = {number for number, name in engines.items() if "unknown" not in name}
    assert known == set(NAMES)
    assert {number: engine_words(NAMES[number]) for number in known} == {
        number: engines[number].removeprefix("(guessed) ") for number in known
    }


def test_the_shards_of_a_model_are_counted_together(tmp_path: Path) -> None:
    arch = said("general.architecture", "llama")
    first = written(tmp_path / "a-00001-of-00002.gguf", arch, tensors=(info("a", 8, 2),))
    second = written(tmp_path / "a-00002-of-00002.gguf", arch, tensors=(info("b", 4),))

    found = told(first)
    second.unlink()

    assert (found.parameters, found.weights) == (20, 80)
    assert read_one(first).error.startswith(f"the file {second} cannot be read")


def test_without_a_file_type_the_files_name_tells_the_quantisation(tmp_path: Path) -> None:
    arch = said("general.architecture", "llama")

    assert told(written(tmp_path / "a-Q5_K_M.gguf", arch)).quantisation == "Q5_K_M"


@pytest.mark.parametrize(
    ("architecture", "pooling", "output"),
    [("llama", None, "text"), ("bert", None, "embeddings"), ("qwen3", 3, "embeddings"),
     ("qwen3", 4, "scores"), ("qwen3", 0, "text")],
)  # fmt: skip
def test_what_a_model_gives_is_told(
    tmp_path: Path, architecture: str, pooling: int | None, output: str
) -> None:
    keys = [said("general.architecture", architecture)]
    if pooling is not None:
        keys.append(number(f"{architecture}.pooling_type", pooling))

    assert told(written(tmp_path / "a.gguf", *keys)).output_modalities == [output]


def test_a_projector_tells_what_a_model_takes(tmp_path: Path) -> None:
    found = told(tiny_model(tmp_path), mmproj=str(tiny_projector()))

    assert found.input_modalities == ["text", "image"]


def test_a_broken_projector_hides_nothing_of_its_model(tmp_path: Path) -> None:
    (tmp_path / "mmproj.gguf").write_bytes(b"none")

    answer = read_one(tiny_model(tmp_path), mmproj=str(tmp_path / "mmproj.gguf"))

    assert answer.error == "the file mmproj.gguf: it does not begin as a GGUF"
    assert answer.metadata.architecture == "llama"


def test_of_a_long_chat_template_the_beginning_is_kept(tmp_path: Path) -> None:
    keys = (
        said("tokenizer.chat_template", "x" * 100_000),
        said("general.architecture", "llama"),
        said("general.name", "after\0it"),
    )

    found = told(written(tmp_path / "a.gguf", *keys))

    assert found.chat_template == "x" * 65_536
    assert found.name == "afterit"


def test_a_file_as_it_was_is_not_read(tmp_path: Path) -> None:
    path = many_models(tmp_path, 1)[0]
    stamp = read_one(path).stamp
    state = path.stat()
    path.write_bytes(bytes(1024))  # whoever read it would find no GGUF

    os.truncate(path, state.st_size)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))

    again = read_one(path, stamp=stamp)

    assert (again.read, again.error) == (False, "")


def test_a_missing_file_is_told_and_not_read(tmp_path: Path) -> None:
    answer = read_one(tmp_path / "gone.gguf")

    assert not answer.read
    assert "gone.gguf" in answer.error


def test_what_may_go_by_itself_has_no_stamp(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").mkdir()
    (tmp_path / "b.gguf").write_bytes(b"junk")

    assert read_one(tmp_path / "a.gguf").stamp == ""
    assert read_one(tmp_path / "b.gguf").stamp != ""


def test_a_bomb_costs_its_own_answer(tmp_path: Path) -> None:
    sound = many_models(tmp_path, len(SHAPES))
    bomb = tmp_path / "bomb.gguf"
    bomb.write_bytes(Gguf(keys=(array("a", STRING, 1 << 34),), data=b"").written())
    with bomb.open("r+b") as file:
        file.truncate(1 << 40)  # with holes: it takes no place on the disk
    paths = [sound[0], bomb, *sound[1:]]

    found = read(*(Ask(number, str(path)) for number, path in enumerate(paths)))

    assert "strings" in found[1].error
    assert [each.metadata.parameters for each in found if not each.error] == [
        parameters(*shape) for shape in SHAPES
    ]


STAND_IN = """
import json, os, signal, sys, time
print("ready", flush=True)
for line in iter(sys.stdin.readline, "\\n"):
    path = json.loads(line)["path"]
    if "hang" in path:
        time.sleep(60)
    if "spin" in path:
        os.kill(os.getpid(), signal.SIGXCPU)
    if "kill" in path:
        os.kill(os.getpid(), signal.SIGKILL)
    if "exit" in path:
        sys.exit(7)
    print(json.dumps({"same": True}), flush=True)
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "program.py"
    program.write_text(STAND_IN)
    monkeypatch.setattr(metadata, "PROGRAM", program)
    return program


def test_a_process_that_ends_costs_one_answer(tmp_path: Path, stand_in: Path) -> None:
    names = ["a", "exit", "b", "spin", "c"]
    for name in names:
        (tmp_path / name).touch()

    found = read(*(Ask(number, str(tmp_path / name)) for number, name in enumerate(names)))

    assert [each.read for each in found] == [False, True, False, True, False]
    assert found[1].error == "reading its header ended with 7"
    assert found[3].error == "reading its header took more processor time than any header"
    assert all(each.stamp for each in found if each.read)  # it would do so again


def test_what_was_killed_by_others_is_no_fault_of_its_file(tmp_path: Path, stand_in: Path) -> None:
    (tmp_path / "kill").touch()

    answer = read_one(tmp_path / "kill")

    assert (answer.error, answer.stamp) == ("reading its header ended with -9", "")


def test_a_file_that_hangs_costs_its_time_and_is_asked_again(stand_in: Path) -> None:
    asks = [Ask(0, "/a"), Ask(1, "/hang"), Ask(2, "/b")]

    found = sorted(read_many(asks, seconds=2), key=lambda answer: answer.ask.id)

    assert [each.read for each in found] == [False, True, False]
    assert (found[1].error, found[1].stamp) == ("reading its header took longer than 2 s", "")


def test_a_file_system_that_hangs_ends_the_run(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "MOST_TIMEOUTS", 1)
    answers = read_many([Ask(0, "/a"), Ask(1, "/hang"), Ask(2, "/b")], seconds=1)

    assert [next(answers).ask.path, next(answers).ask.path] == ["/a", "/hang"]
    with pytest.raises(ReaderBroken, match="/hang: 1 more are left"):
        next(answers)


def test_a_program_that_does_not_start_blames_no_file(stand_in: Path) -> None:
    stand_in.write_text("raise SystemExit(9)")

    with pytest.raises(ReaderBroken, match="ended with 9"):
        list(read_many([Ask(0, "/a")]))


def test_who_ends_does_not_wait_for_a_file_that_hangs(stand_in: Path) -> None:
    code = (
        "import sys, threading, time\n"
        "from pathlib import Path\n"
        "from models_registry.gguf import metadata\n"
        "metadata.PROGRAM = Path(sys.argv[1])\n"
        "answers = metadata.read_many([metadata.Ask(0, '/a'), metadata.Ask(1, '/hang')], 300)\n"
        "next(answers)\n"
        "threading.Thread(target=next, args=(answers,), daemon=True).start()\n"
    )

    subprocess.run([sys.executable, "-c", code, str(stand_in)], timeout=60, check=True)


def test_the_kernel_ends_what_computes_without_end() -> None:
    code = (
        "from models_registry.gguf import metadata_child as child\n"
        "child.CPU_SECONDS = 0\n"
        "child._limit_time()\n"
        "while True: pass\n"
    )

    done = subprocess.run([sys.executable, "-c", code], timeout=60)

    assert done.returncode == -signal.SIGXCPU


def test_the_program_ends_with_who_started_it() -> None:
    program = subprocess.Popen(
        [sys.executable, "-I", "-S", str(metadata.PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with program:
        assert program.stdout
        assert program.stdin
        assert program.stdout.readline() == b"ready\n"
        program.stdin.write(b'{"path": "/no/such.gguf", "mmproj": "", "draft": "", "stamp": ""}\n')
        program.stdin.close()
        assert program.wait(30) == 3
