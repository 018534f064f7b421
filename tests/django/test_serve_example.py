"""The line to paste that `serve` prints names a model that is likely to answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from models_registry.models import ModelFile, Source
from routerproj.serve.first_run import some_model
from tests.django.registry_rows import make_model_file, make_preset

pytestmark = pytest.mark.django_db


def test_a_model_whose_file_is_no_gguf_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_text("<html>404</html>")
    broken = ModelFile.objects.create(path=str(tmp_path / "broken.gguf"))
    make_preset("a", broken)
    make_preset("b", make_model_file(tmp_path / "b.gguf"))

    assert some_model("") == "b"


def test_the_demo_comes_first(tmp_path: Path) -> None:
    file = make_model_file(tmp_path / "a.gguf")
    make_preset("a", file)
    make_preset("demo", file, source=Source.DEMO)

    assert some_model("") == "demo"


def test_the_model_that_was_asked_for_comes_before_all(tmp_path: Path) -> None:
    file = make_model_file(tmp_path / "a.gguf")
    make_preset("demo", file, source=Source.DEMO)
    make_preset("mine", file)

    assert some_model("mine") == "mine"


def test_a_broken_one_is_better_than_no_line(tmp_path: Path) -> None:
    make_preset("gone", ModelFile.objects.create(path=str(tmp_path / "gone.gguf")))

    assert some_model("") == "gone"


def test_no_model_no_name() -> None:
    assert some_model("") == ""
