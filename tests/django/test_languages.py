"""Pages speak the reader's language; programs, logs and records speak English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import translation

from models_registry.models import AuditRecord, Preset
from scripts import messages
from scripts.messages import Text

from .registry_rows import make_model_file, make_preset

HAN = re.compile(r"[\u4e00-\u9fff]")
CHINESE = {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"}


@pytest.fixture(autouse=True)
def english_afterwards() -> Iterator[None]:
    with translation.override("en"):
        yield


@pytest.fixture
def preset(tmp_path: Path) -> Preset:
    return make_preset("first", make_model_file(tmp_path / "a.gguf"))


def test_every_text_of_our_pages_has_its_chinese_with_the_same_placeholders() -> None:
    assert messages.faults() == []


def test_what_django_reads_is_the_catalogue() -> None:
    compiled = messages.CATALOGUE.with_suffix(".mo").read_bytes()

    assert compiled == messages.compiled(messages.read()), "python -m scripts.messages --compile"


@pytest.mark.parametrize(
    ("catalogue", "fault"),
    [
        ("", "without Chinese: 'Presets'"),
        ('msgid "Presets"\nmsgstr ""\n', "without Chinese: 'Presets'"),
        ('msgid "Presets"\nmsgstr "预设"\n\nmsgid "Gone"\nmsgstr "无"\n', "said nowhere: 'Gone'"),
        ('msgid "%(a)s"\nmsgstr "%(b)s"\n', "other placeholders: '%(a)s' and '%(b)s'"),
    ],
)
def test_what_a_catalogue_lacks_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, catalogue: str, fault: str
) -> None:
    path = tmp_path / "django.po"
    path.write_text(catalogue)
    known = messages.read(path)
    monkeypatch.setattr(messages, "read", lambda: known)
    monkeypatch.setattr(messages, "said", lambda: {Text("Presets"), Text("%(a)s")})

    assert fault in messages.faults()


def test_no_column_filter_or_field_is_named_in_english_alone() -> None:
    assert messages.unsaid() == []


@pytest.mark.parametrize(
    "source",
    [
        "@admin.display(description='size')\ndef size(self, row): ...",
        "@admin.display(ordering='size')\ndef size(self, row): ...",
        "class ByTag(SimpleListFilter):\n    title = 'tag'",
        "name = forms.CharField(required=False)",
    ],
)
def test_a_plain_name_is_found(source: str) -> None:
    assert list(messages._plain_names(ast.parse(source)))


def test_texts_are_found_in_modules_templates_and_models() -> None:
    said = messages.said()

    assert Text("Try it") in said  # a template
    assert Text("It waits, for %(time)s now.") in said  # a module
    assert Text("%(count)s request", "%(count)s requests") in said
    assert Text("upstream URL") in said  # a field
    assert Text("wait for the best place that the machine could give") in said  # a choice


@pytest.mark.django_db
def test_the_browsers_language_counts(admin_client: Client, preset: Preset) -> None:
    page = admin_client.get(
        reverse("admin:models_registry_preset_change", args=[preset.pk]), headers=CHINESE
    ).content.decode()

    assert '<html lang="zh-hans"' in page
    assert "能否容纳" in page
    assert "GPU 层数" in page  # a label
    assert "CPU 线程数" in page  # a help text
    assert "预设" in page  # the menu


@pytest.mark.django_db
def test_a_choice_counts_before_the_browsers_language(admin_client: Client) -> None:
    chosen = admin_client.post(
        reverse("set_language"), {"language": "zh-hans", "next": "/admin/"}, headers={}
    )

    assert (chosen.status_code, chosen["Location"]) == (302, "/admin/")
    assert "预设" in admin_client.get("/admin/", headers={"Accept-Language": "en"}).content.decode()
    admin_client.post(reverse("set_language"), {"language": "en"})
    assert "Presets" in admin_client.get("/admin/", headers=CHINESE).content.decode()


@pytest.mark.django_db
def test_a_language_that_there_is_not_is_english(admin_client: Client) -> None:
    admin_client.post(reverse("set_language"), {"language": "../../etc"})

    page = admin_client.get("/admin/", headers={"Accept-Language": "xx, */*;q=0.1"})

    assert '<html lang="en"' in page.content.decode()


@pytest.mark.django_db
def test_programs_are_answered_in_english(client: Client, admin_client: Client) -> None:
    for url in ("/router/api/presets", "/router/api/presets/none"):
        told = [each.get(url, headers=CHINESE).content for each in (client, admin_client)]
        assert told == [each.get(url).content for each in (client, admin_client)]
        assert all(text.isascii() for text in told)


@pytest.mark.django_db
def test_what_is_recorded_is_english(admin_client: Client, preset: Preset) -> None:
    admin_client.post(
        reverse("admin:models_registry_preset_pin", args=[preset.pk]), headers=CHINESE
    )
    admin_client.post(
        reverse("admin:models_registry_preset_clone", args=[preset.pk]), headers=CHINESE
    )

    told = " ".join(str(value) for row in AuditRecord.objects.values() for value in row.values())
    reasons = {record.history_change_reason for record in Preset.history.all()}
    assert "pinned" in reasons
    assert not HAN.search(told)
    assert not HAN.search(" ".join(map(str, reasons)))
