"""The list of model files shows what headers say, and finds files by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from models_registry.metadata_shown import metadata_shown, parameters_shown
from models_registry.models import FileMetadata, ModelFile

from .registry_rows import FakeScheduler, make_model_file, make_preset, use_scheduler

pytestmark = pytest.mark.django_db
LIST = "/admin/models_registry/modelfile/"
EVIL = '<img src=x onerror="alert(1)">'


@pytest.fixture(autouse=True)
def _scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    use_scheduler(monkeypatch, FakeScheduler())


def with_header(path: Path, **said: Any) -> ModelFile:
    model_file = make_model_file(path)
    FileMetadata.objects.create(model_file=model_file, stamp="seen", **said)
    return model_file


@pytest.fixture
def files(tmp_path: Path) -> None:
    with_header(
        tmp_path / "a.gguf", architecture="qwen3", parameters=7_615_616_512,
        quantisation="Q4_K_M", context_length=40960, licence="apache-2.0", name="Qwen of ours",
    )  # fmt: skip
    with_header(tmp_path / "b.gguf", error="it does not begin as a GGUF")
    make_model_file(tmp_path / "c.gguf")


def listed(client: Client, query: str = "") -> str:
    page: str = client.get(f"{LIST}?{query}").content.decode()
    return page


def test_the_list_shows_headers_and_what_cannot_be_read(admin_client: Client, files: None) -> None:
    page = listed(admin_client)

    for text in ("qwen3", "7.6 B", "Q4_K_M", "40,960", "apache-2.0", "cannot be read"):
        assert text in page


@pytest.mark.parametrize(
    "query",
    ["q=qwen of", "q=q4_k_m", "q=apache", "metadata__architecture=qwen3",
     "metadata__quantisation=Q4_K_M", "metadata__licence=apache-2.0"],
)  # fmt: skip
def test_files_are_found_by_their_headers(
    admin_client: Client, files: None, tmp_path: Path, query: str
) -> None:
    page = listed(admin_client, query)

    assert str(tmp_path / "a.gguf") in page
    assert str(tmp_path / "b.gguf") not in page
    assert str(tmp_path / "c.gguf") not in page


def test_what_cannot_be_read_is_found(admin_client: Client, files: None, tmp_path: Path) -> None:
    page = listed(admin_client, "metadata__error__isempty=0")

    assert str(tmp_path / "b.gguf") in page
    assert str(tmp_path / "a.gguf") not in page


def test_a_list_is_sorted_by_figures(admin_client: Client, files: None) -> None:
    for column in range(1, 11):
        assert admin_client.get(f"{LIST}?o={column}").status_code == 200


def test_many_files_cost_no_more_queries(
    admin_client: Client, tmp_path: Path, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        model_file = with_header(tmp_path / f"{number}.gguf", architecture=f"a{number}")
        make_preset(f"p{number}", model_file)

    with django_assert_max_num_queries(10):
        listed(admin_client)


def test_the_page_of_a_file_shows_its_header(admin_client: Client, tmp_path: Path) -> None:
    model_file = with_header(
        tmp_path / "a.gguf", architecture=EVIL, chat_template=f"{EVIL}{{{{ messages }}}}"
    )

    url = reverse("admin:models_registry_modelfile_change", args=[model_file.pk])
    page = admin_client.get(url).content.decode()

    assert "{{ messages }}" in page
    assert EVIL not in page
    assert "&lt;img src=x" in page


def test_a_file_that_was_not_read_yet_says_so(admin_client: Client, tmp_path: Path) -> None:
    model_file = make_model_file(tmp_path / "a.gguf")

    url = reverse("admin:models_registry_modelfile_change", args=[model_file.pk])

    assert "it has not been read yet" in admin_client.get(url).content.decode()
    assert metadata_shown(model_file) == []


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, ""), (0, ""), (999, "999"), (135_000_000, "135 M"), (7_615_616_512, "7.6 B"),
     (999_900_000, "1 B"), (70_000_000_000, "70 B"), (671_000_000_000, "671 B"),
     (1_040_000_000_000, "1 T")],
)  # fmt: skip
def test_parameters_are_told_as_people_name_models(count: int | None, text: str) -> None:
    assert parameters_shown(count) == text
