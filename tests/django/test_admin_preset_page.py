"""A preset's page: what counts and why, what is locked, what is missing, what it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from models_registry import measurements
from models_registry.launch import launch_spec_of
from models_registry.models import Measurement, Preset
from models_registry.ports import PresetStatus

from .registry_rows import (
    FakeScheduler,
    away,
    make_model_file,
    make_preset,
    use_scheduler,
    use_stand_in_engine,
)

pytestmark = pytest.mark.django_db
EVIL = '<img src=x onerror="alert(1)">'


@pytest.fixture(autouse=True)
def scheduler(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeScheduler:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    return use_scheduler(monkeypatch, FakeScheduler())


@pytest.fixture
def preset(tmp_path: Path) -> Preset:
    return make_preset("first", make_model_file(tmp_path / "a.gguf"), ctx_size=4096)


def url_of(preset: Preset) -> str:
    return reverse("admin:models_registry_preset_change", args=[preset.pk])


def opened(client: Client, preset: Preset) -> str:
    return client.get(url_of(preset)).content.decode()


def now_url(preset: Preset) -> str:
    return reverse("admin:models_registry_preset_now", args=[preset.pk])


def an_editor(client: Client, *permissions: str) -> Client:
    user = User.objects.create_user("editor", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return client


def sent(preset: Preset, **fields: Any) -> dict[str, Any]:
    return {
        "name": preset.name, "model_file": preset.model_file.pk, "ctx_size": preset.ctx_size,
        "seen_version": preset.version, "embeddings": "unknown", "priority": "normal",
        "engine": "llama_server",
        "placement": "best", "replicas": "1",
        "aliases-TOTAL_FORMS": "0", "aliases-INITIAL_FORMS": "0", **fields,
    }  # fmt: skip


# Options ----------------------------------------------------------------------------------


def test_an_option_from_each_layer_says_where_it_comes_from(
    admin_client: Client, preset: Preset, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_BATCH", "512")
    settings.CORRAL_COMMAND_LINE = {"threads": "3"}

    page = opened(admin_client, preset)

    for key, value, layer in (
        ("batch-size", "512", "environment"),
        ("model", preset.model_file.path, "model file"),
        ("ctx-size", "4096", "preset"),
        ("threads", "3", "serve&#x27;s command line"),
        ("parallel", "4", "Corral&#x27;s default"),
    ):
        assert f'<th scope="row">{key}</th><td>{value}</td><td>{layer}' in page


def test_the_command_line_is_the_one_that_is_started(admin_client: Client, preset: Preset) -> None:
    page = opened(admin_client, preset)

    assert " ".join(launch_spec_of(preset).argv) in page
    assert "--alias first" in page  # what the engine adds is there too


def test_a_field_that_is_unset_says_what_counts_instead(
    admin_client: Client, preset: Preset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_BATCH", "512")
    page = opened(admin_client, preset)

    assert 'placeholder="unset: 512 (' in page
    assert 'placeholder="unset: 4 (Corral&#x27;s default)"' in page


def test_an_option_that_serve_fixes_is_locked_with_the_reason_and_keeps_its_value(
    admin_client: Client, preset: Preset, settings: Any
) -> None:
    Preset.objects.update(threads=7)
    settings.CORRAL_COMMAND_LINE = {"threads": "3", "flash-attn": "on"}

    page = opened(admin_client, preset)
    admin_client.post(url_of(preset), sent(preset, threads="5", parallel="2"))

    assert "command line says threads = 3 for every preset" in page
    form = admin_client.get(url_of(preset)).context["adminform"].form
    assert [name for name, field in form.fields.items() if field.disabled] == [
        "threads",
        "flash_attn",
    ]
    preset.refresh_from_db()
    assert (preset.threads, preset.parallel) == (7, 2)


def test_the_reason_of_a_lock_is_escaped(
    admin_client: Client, preset: Preset, settings: Any
) -> None:
    settings.CORRAL_COMMAND_LINE = {"cache-type-k": EVIL}

    assert EVIL not in opened(admin_client, preset)


def test_only_superusers_may_write_any_option(client: Client, preset: Preset) -> None:
    editor = an_editor(client, "change_preset")
    Preset.objects.update(extra_options="top-k = 7")

    page = opened(editor, preset)
    editor.post(url_of(preset), sent(preset, ctx_size="8192", extra_options="top-k = 8"))

    assert "Only superusers may edit them" in page
    preset.refresh_from_db()
    assert (preset.ctx_size, preset.extra_options) == (8192, "top-k = 7")


def test_only_superusers_may_go_back_to_other_options(client: Client, preset: Preset) -> None:
    record = Preset.history.get()
    preset.extra_options = "top-k = 7"
    preset.save()
    url = reverse("admin:models_registry_preset_version", args=[preset.pk, record.history_id])

    page = an_editor(client, "change_preset").post(url).content.decode()

    assert "Only superusers" in page
    preset.refresh_from_db()
    assert preset.extra_options == "top-k = 7"


def test_a_value_that_the_engine_would_refuse_is_refused_at_its_field(
    admin_client: Client, preset: Preset
) -> None:
    response = admin_client.post(url_of(preset), sent(preset, cache_type_k="q9_9"))

    errors = response.context["adminform"].form.errors
    assert list(errors) == ["cache_type_k"]
    assert "takes one of" in errors["cache_type_k"][0]


def test_a_vanished_file_is_told_on_the_page_and_in_the_lists(
    admin_client: Client, preset: Preset
) -> None:
    Path(preset.model_file.path).unlink()

    assert "Its model file has vanished" in opened(admin_client, preset)
    for model in ("preset", "modelfile"):
        page = admin_client.get(f"/admin/models_registry/{model}/").content.decode()
        assert "missing</span>" in page


# What is alive ----------------------------------------------------------------------------


def test_a_stale_instance_is_marked_and_can_be_applied(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    assert "Apply now" not in opened(admin_client, preset)
    scheduler.answer = {"first": PresetStatus("loaded", leases=1, stale=True)}

    page = opened(admin_client, preset)

    assert ">stale</span>" in page
    assert ">Apply now</button>" in page


def test_the_live_part_is_sent_anew_only_when_it_changed(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    first = admin_client.get(now_url(preset))
    seen = first.content.decode().split("?seen=")[1].split('"')[0]

    same = admin_client.get(now_url(preset), {"seen": seen})
    scheduler.answer = {"first": PresetStatus("loading", progress=0.5)}
    other = admin_client.get(now_url(preset), {"seen": seen})

    assert (same.status_code, same.content) == (204, b"")
    assert other.status_code == 200
    assert "loading 50%" in other.content.decode()
    assert "no-store" in other.headers["Cache-Control"]


@pytest.mark.parametrize("seen", ["", "0"])
def test_whoever_is_logged_out_meanwhile_gets_no_login_page_into_the_midst(
    client: Client, preset: Preset, seen: str
) -> None:
    states = reverse("admin:models_registry_preset_states")

    for url in (now_url(preset), f"{states}?ids={preset.pk}"):
        answer = client.get(url, {"seen": seen} if seen else None)
        assert (answer.status_code, answer.content) == (204, b"")


def test_the_lists_states_are_sent_each_to_its_place(
    admin_client: Client, preset: Preset, scheduler: FakeScheduler
) -> None:
    scheduler.answer = {"first": PresetStatus(EVIL, waiters=2)}
    url = reverse("admin:models_registry_preset_states")

    told = admin_client.get(url, {"ids": f"{preset.pk},999,x,,-1"}).content.decode()

    assert told.count('hx-swap-oob="true"') == 1
    assert f'id="state-{preset.pk}"' in told
    assert "2 waiting" in told
    assert EVIL not in told


def test_the_live_part_says_that_the_scheduler_is_away(
    admin_client: Client, preset: Preset, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scheduler(monkeypatch, away())

    told = admin_client.get(now_url(preset)).content.decode()

    assert ">unknown</span>" in told
    assert "The scheduler does not answer" in told


# Measured ---------------------------------------------------------------------------------


def test_the_measured_figures_stand_on_the_page(admin_client: Client, preset: Preset) -> None:
    assert "Not measured yet" in opened(admin_client, preset)
    measurements.order(launch_spec_of(preset))
    Measurement.objects.update(
        state="measured",
        measured_at=timezone.now(),
        engine=EVIL,
        devices=[
            {"device": "Host", "model": 92 << 20, "context": 90 << 20, "compute": 17 << 20},
            {"device": "RPC0", "model": 0, "context": 1 << 19, "compute": 0},
        ],
    )

    page = opened(admin_client, preset)

    figures = {
        "Model": "92.0",
        "Cache of the context": "90.0",
        "Compute": "17.0",
        "In all": "199.0",
    }
    cells = "".join(
        f'<td class="number" data-label="{label}">{figure} MiB</td>'
        for label, figure in figures.items()
    )
    assert f'<th scope="row">Host</th>{cells}' in page
    assert '<td class="number" data-label="Cache of the context">0.5 MiB</td>' in page
    assert EVIL not in page


def test_a_failed_measurement_says_why(admin_client: Client, preset: Preset) -> None:
    measurements.order(launch_spec_of(preset))
    Measurement.objects.update(state="failed", error=f"it crashed {EVIL}")

    page = opened(admin_client, preset)

    assert "it crashed &lt;img" in page
    assert EVIL not in page


def test_the_form_tells_what_the_engine_says_of_its_options(
    admin_client: Client, preset: Preset
) -> None:
    page = admin_client.get(url_of(preset)).content.decode()

    assert "The engine&#x27;s default: 512." in page
    assert "One of f32, f16, bf16, q8_0" in page


def test_options_are_looked_up_by_name_and_by_what_they_do(
    admin_client: Client, preset: Preset
) -> None:
    url = reverse("admin:models_registry_preset_options")

    by_name = admin_client.get(f"{url}?option=top_k").content.decode()
    by_help = admin_client.get(f"{url}?option=repeat+penal").content.decode()
    refused = admin_client.get(f"{url}?option=api-key-file").content.decode()
    every = admin_client.get(url)

    assert "top-k</code>" in by_name
    assert "repeat-penalty</code>" in by_help
    assert "The engine has no such option." in refused
    assert every.context["more"] > 100
