"""The revision is raised with every change, and told once it is committed."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from django.db import transaction
from django.db.models.signals import post_save

from models_registry.models import Alias, ModelFile, RegistryRevision
from models_registry.revision import registry_revision

from .registry_rows import FakeScheduler, away, make_model_file, make_preset, use_scheduler

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.each_database]


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    return use_scheduler(monkeypatch, FakeScheduler())


def test_every_save_and_delete_raises_it(scheduler: FakeScheduler, tmp_path: Path) -> None:
    seen = [registry_revision()]

    def note() -> None:
        seen.append(registry_revision())

    model_file = make_model_file(tmp_path / "a.gguf")
    note()
    preset = make_preset("a", model_file)
    note()
    preset.ctx_size = 1024
    preset.save()
    note()
    alias = Alias.objects.create(name="b", preset=preset)
    note()
    alias.delete()
    note()
    preset.delete()
    note()

    assert seen == [0, 1, 2, 3, 4, 5, 6]
    assert [asked for asked in scheduler.asked] == [("reload", n) for n in range(1, 7)]


def test_deleting_a_file_raises_it_for_its_presets_too(
    scheduler: FakeScheduler, tmp_path: Path
) -> None:
    model_file = make_model_file(tmp_path / "a.gguf")
    make_preset("a", model_file)
    before = registry_revision()

    model_file.delete()

    assert registry_revision() > before


def test_a_change_that_is_rolled_back_raises_and_tells_nothing(
    scheduler: FakeScheduler, tmp_path: Path
) -> None:
    model_file = make_model_file(tmp_path / "a.gguf")
    before = registry_revision()
    scheduler.asked.clear()

    with transaction.atomic():
        make_preset("a", model_file)
        assert registry_revision() == before + 1
        transaction.set_rollback(True)

    assert registry_revision() == before
    assert scheduler.asked == []


def test_a_save_and_its_revision_stand_or_fall_together(
    scheduler: FakeScheduler, tmp_path: Path
) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError

    post_save.connect(fail, sender=ModelFile, weak=False, dispatch_uid="fail")
    try:
        with pytest.raises(ZeroDivisionError):
            make_model_file(tmp_path / "a.gguf")
    finally:
        post_save.disconnect(sender=ModelFile, dispatch_uid="fail")

    assert ModelFile.objects.count() == 0
    assert registry_revision() == 0
    assert scheduler.asked == []


def test_many_changes_in_one_transaction_are_told_once(
    scheduler: FakeScheduler, tmp_path: Path
) -> None:
    with transaction.atomic():
        model_file = make_model_file(tmp_path / "a.gguf")
        for number in range(5):
            make_preset(f"a{number}", model_file)

    assert scheduler.asked == [("reload", 6)]


def test_what_an_inner_rollback_takes_back_is_told_by_the_outer_change(
    scheduler: FakeScheduler, tmp_path: Path
) -> None:
    with transaction.atomic():
        with transaction.atomic():
            make_model_file(tmp_path / "a.gguf")
            transaction.set_rollback(True)
        make_model_file(tmp_path / "b.gguf")

    assert scheduler.asked == [("reload", 1)]


def test_an_absent_scheduler_is_no_more_than_a_debug_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    use_scheduler(monkeypatch, away())
    caplog.set_level(logging.DEBUG, "models_registry")

    make_model_file(tmp_path / "a.gguf")

    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


def test_there_is_one_row(scheduler: FakeScheduler, tmp_path: Path) -> None:
    make_model_file(tmp_path / "a.gguf")
    make_model_file(tmp_path / "b.gguf")

    assert RegistryRevision.objects.count() == 1
