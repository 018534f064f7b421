"""An Ollama Modelfile becomes a preset, and says what it could not."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from models_registry.access import Asker
from models_registry.errors import ImportRefused
from models_registry.imports import modelfile
from models_registry.imports.applying import apply
from models_registry.imports.plan import ImportReport
from models_registry.launch import launch_specs
from models_registry.models import Preset

from .registry_rows import gguf, make_model_file, make_preset, use_stand_in_engine

pytestmark = pytest.mark.django_db

ADMIN = Asker("a test", everything=True)

WHOLE = """\
# what `ollama show --modelfile` prints
FROM ./weights.gguf
FROM ./mmproj-f16.gguf
from ./more.gguf
PARAMETER num_ctx 8192
PARAMETER num_gpu 20
PARAMETER num_predict 256
PARAMETER num_batch 256
PARAMETER main_gpu 1
PARAMETER use_mmap false
PARAMETER temperature 0.6
parameter TOP_K 40
PARAMETER seed -1
PARAMETER num_keep 4
PARAMETER stop "<|im_end|>"
PARAMETER stop <|im start|>
PARAMETER tfs_z 1
PARAMETER top_p high
PARAMETER num_thread 0
TEMPLATE \"\"\"{{ if .System }}
FROM inside a template
{{ end }}\"\"\"
SYSTEM You are brief.
ADAPTER ./lora.gguf
MESSAGE user hello
LICENSE \"\"\"
MIT\"\"\"
"""


@pytest.fixture(autouse=True)
def _engine(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    for name in ("weights", "mmproj-f16"):
        gguf(tmp_path / f"{name}.gguf")


def imported(text: str, folder: Path | None, name: str = "brief") -> ImportReport:
    return apply(modelfile.plan(text, name, folder=folder), ADMIN)


def test_what_can_be_taken_is_taken(tmp_path: Path) -> None:
    assert imported(WHOLE, tmp_path).added == ["brief"]

    preset = Preset.objects.get()
    assert preset.model_file.path == str(tmp_path / "weights.gguf")
    assert preset.model_file.mmproj == str(tmp_path / "mmproj-f16.gguf")
    assert (preset.ctx_size, preset.n_gpu_layers, preset.batch_size) == (8192, "20", 256)
    assert set(preset.extra_options.splitlines()) == {
        "n-predict = 256",
        "main-gpu = 1",
        "load-mode = none",
    }
    assert preset.request_defaults == {
        "temperature": 0.6,
        "top_k": 40,
        "seed": -1,
        "n_keep": 4,
        "system": "You are brief.",
        "stop": ["<|im_end|>", "<|im start|>"],
    }
    assert not launch_specs()[0].problem


def test_what_cannot_be_taken_is_listed_with_its_line(tmp_path: Path) -> None:
    notes = [note.partition(" is not taken") for note in imported(WHOLE, tmp_path).notes]

    assert [told for told, _, _ in notes] == [
        "line 4: FROM ./more.gguf",
        "line 17: PARAMETER tfs_z",
        "line 18: PARAMETER top_p",
        "line 19: PARAMETER num_thread",
        "line 20: TEMPLATE",
        "line 24: ADAPTER",
        "line 25: MESSAGE",
        "line 26: LICENSE",
    ]


@pytest.mark.parametrize(
    "name", ["llama3", "llama3:latest", "registry.ollama.ai/library/llama3:latest"]
)
def test_a_name_is_the_model_of_ollamas_store_and_its_parameters_count(
    name: str, tmp_path: Path
) -> None:
    base = make_preset(
        "llama3", make_model_file(tmp_path / "blob"), file_options={"ctx-size": "2048"}
    )

    imported(f"FROM {name}\nPARAMETER temperature 0\n", None)

    preset = Preset.objects.get(name="brief")
    assert (preset.base, preset.model_file) == (base, base.model_file)
    [spec] = [spec for spec in launch_specs() if spec.preset == "brief"]
    assert spec.argv[spec.argv.index("--ctx-size") + 1] == "2048"
    assert spec.filters.defaults == {"temperature": 0}


def test_a_name_without_a_tag_is_found_by_the_alias_that_the_store_gives_it(
    tmp_path: Path,
) -> None:
    base = make_preset("llama3:latest", make_model_file(tmp_path / "blob.gguf"))
    base.aliases.create(name="llama3")

    assert imported("FROM llama3", None).added == ["brief"]
    assert Preset.objects.get(name="brief").base == base


def test_words_may_have_tabs_between_them_and_only_ends_of_lines_end_lines(tmp_path: Path) -> None:
    text = "FROM\t./weights.gguf\r\nPARAMETER\tnum_ctx \t 512\rSYSTEM a\x0cHELLO\u2028HELLO\n"

    assert imported(text, tmp_path).added == ["brief"]
    assert Preset.objects.get().ctx_size == 512


def test_a_name_that_is_not_here_is_said(tmp_path: Path) -> None:
    report = imported("FROM llama3\n", tmp_path)

    assert report.added == []
    assert str(report.skipped[0]).startswith("brief: no model here is called llama3: download it")


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("", "a", "has a line FROM"),
        ("PARAMETER num_ctx 1\n", "a", "has a line FROM"),
        ("FROM\n", "a", "line 1: FROM names no model"),
        ("FROM x\nFORM y\n", "a", "line 2: 'FORM' is no instruction"),
        ('FROM x\nSYSTEM """never\nends\n', "a", "line 2: .* no closing"),
        ("FROM ./x.gguf\n", "a", "line 1: ./x.gguf is a relative path"),
        ("FROM x\n", "..", "the name '..' cannot be taken"),
        ("FROM x\n# " + "y" * (1 << 20), "a", "longer than"),
    ],
)
def test_what_is_no_modelfile_is_refused(text: str, name: str, words: str) -> None:
    with pytest.raises(ImportRefused, match=words):
        modelfile.plan(text, name)


def test_the_command_takes_paths_from_the_files_own_folder(tmp_path: Path) -> None:
    file = tmp_path / "Modelfile"
    file.write_bytes(b"\xef\xbb\xbfFROM weights.gguf\r\nPARAMETER num_ctx 512\r\n")
    out = io.StringIO()

    call_command("import_modelfile", str(file), "--name", "brief", "--dry-run", stdout=out)
    assert not Preset.objects.exists()
    call_command("import_modelfile", str(file), "--name", "brief", stdout=out)

    assert out.getvalue() == "would add brief\nadded brief\n"
    assert Preset.objects.get().ctx_size == 512
    with pytest.raises(CommandError, match="1 of its models were not taken"):
        call_command("import_modelfile", str(file), "--name", "brief", stdout=out)
    file.write_text("FROM\n")
    with pytest.raises(CommandError, match="line 1: FROM names no model"):
        call_command("import_modelfile", str(file), "--name", "other", stdout=out)
