"""What headers say is kept in rows; each state of a file is read once, soon after it may have
changed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from models_registry import index_jobs, indexing
from models_registry.gguf.metadata import ReaderBroken
from models_registry.indexing import index_files
from models_registry.models import FileMetadata, ModelFile
from tests.support.many_models import SHAPES, many_models, parameters

pytestmark = pytest.mark.django_db
MANY = 500


def rows_of(paths: list[Path]) -> list[ModelFile]:
    return ModelFile.objects.bulk_create(ModelFile(path=str(path)) for path in paths)


def test_hundreds_of_headers_are_read_once(tmp_path: Path) -> None:
    rows_of(many_models(tmp_path, MANY))

    before = time.process_time() + sum(os.times()[2:4])
    first = index_files()
    spent = time.process_time() + sum(os.times()[2:4]) - before
    second = index_files()

    assert (first.files, first.read, first.unreadable) == (MANY, MANY, 0)
    assert (second.files, second.read) == (MANY, 0)
    assert FileMetadata.objects.filter(parameters=parameters(*SHAPES[0])).count() == MANY / 4
    # The issue allows 15 s for 10,000 on two processors; a machine of many tests gets twice that.
    assert spent < 2 * 15 * 2 * MANY / 10_000


def test_what_a_row_keeps(tmp_path: Path) -> None:
    rows_of(many_models(tmp_path, 1, template="{{ messages }}"))

    index_files()

    row = FileMetadata.objects.get()
    assert (row.name, row.architecture, row.quantisation) == ("model 000000", "llama", "Q4_K_M")
    assert (row.layers, row.embedding_length, row.context_length) == (8, 512, 4096)
    assert (row.vocabulary, row.tokenizer, row.licence) == (512, "gpt2", "apache-2.0")
    assert (row.chat_template, row.input_modalities) == ("{{ messages }}", ["text"])
    assert row.error == ""


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    paths = many_models(tmp_path, 3)
    rows_of(paths)
    index_files()
    old = FileMetadata.objects.get(model_file__path=str(paths[1]))
    paths[1].write_bytes(b"junk")

    again = index_files()

    row = FileMetadata.objects.get(pk=old.pk)
    assert (again.read, again.unreadable) == (1, 1)
    assert row.error == f"the file {paths[1].name}: it does not begin as a GGUF"
    assert (row.architecture, row.parameters) == ("", None)
    assert row.read_at > old.read_at


def test_another_projector_is_seen(tmp_path: Path) -> None:
    paths = many_models(tmp_path, 2)
    (row, _) = rows_of(paths)
    index_files()
    ModelFile.objects.filter(pk=row.pk).update(mmproj=str(paths[1]))

    assert index_files().read == 1


def test_a_file_that_has_gone_keeps_what_is_known(tmp_path: Path) -> None:
    (path,) = many_models(tmp_path, 1)
    rows_of([path])
    index_files()
    path.unlink()

    again = index_files()

    assert (again.read, again.missing) == (0, 1)
    assert FileMetadata.objects.get().architecture == "llama"


def test_a_file_forgotten_while_it_is_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, forgotten = rows_of(many_models(tmp_path, 2))
    read_many = indexing.read_many

    def while_others_work(asks: Any) -> Any:
        for answer in read_many(asks):
            ModelFile.objects.filter(pk=forgotten.pk).delete()
            yield answer

    monkeypatch.setattr(indexing, "read_many", while_others_work)

    index_files()

    assert list(FileMetadata.objects.values_list("pk", flat=True)) == [kept.pk]


def test_what_was_read_before_the_reader_broke_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of(many_models(tmp_path, 2))
    read_many = indexing.read_many

    def breaks(asks: Any) -> Any:
        yield next(read_many(asks))
        raise ReaderBroken("files hang")

    monkeypatch.setattr(indexing, "read_many", breaks)

    done = index_files()

    assert done.problem == "files hang"
    assert FileMetadata.objects.count() == 1


def test_who_did_not_answer_the_last_time_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(many_models(tmp_path, 3))
    FileMetadata.objects.create(model_file=rows[0], stamp="", error="took longer than 10 s")
    FileMetadata.objects.create(model_file=rows[1], stamp="as it was")
    asked: list[int] = []
    monkeypatch.setattr(
        indexing, "read_many", lambda asks: asked.extend(ask.id for ask in asks) or iter(())
    )

    index_files()

    assert asked == [rows[1].pk, rows[2].pk, rows[0].pk]


@pytest.fixture
def ordered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    orders: list[str] = []
    monkeypatch.setattr(index_jobs, "index", lambda: orders.append("index"))
    return orders


def test_changed_rows_order_one_job_when_they_are_committed(
    tmp_path: Path, ordered: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        with transaction.atomic():
            for path in many_models(tmp_path, 3):
                ModelFile.objects.create(path=str(path))
        assert ordered == []

    assert ordered == ["index"]


def test_a_queue_that_cannot_be_written_fails_no_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(index_jobs, "index", full)

    index_jobs.order()


def test_of_many_orders_the_last_one_is_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    monkeypatch.setattr(index_jobs, "index_files", lambda: runs.append("run") or indexing.Indexed())
    waiting = iter([2, 1, 0])
    monkeypatch.setattr(index_jobs.headers, "pending_count", lambda: next(waiting))

    for _ in range(3):
        index_jobs.index.call_local()

    assert runs == ["run"]
