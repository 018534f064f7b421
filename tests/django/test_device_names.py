"""Options that name devices which the machine does not have: told where a preset is saved and
shown, and never refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from models_registry import device_names, engine_version
from models_registry.device_names import device_warnings
from models_registry.models import GlobalPreset, Preset

from .management import Manager
from .registry_rows import (
    HELP,
    FakeScheduler,
    away,
    make_model_file,
    make_preset,
    use_scheduler,
    use_stand_in_engine,
)
from .test_admin_preset_page import opened, sent, url_of

pytestmark = pytest.mark.django_db

MISSING = "device names CUDA7, which this machine does not have now: it knows CUDA0, none."


@pytest.fixture(autouse=True)
def scheduler(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeScheduler:
    use_stand_in_engine(settings, monkeypatch, tmp_path)
    return use_scheduler(monkeypatch, FakeScheduler(has=("CUDA0", "Host")))


@pytest.fixture(autouse=True)
def no_engine_is_known() -> Iterator[None]:
    engine_version._known.clear()
    yield
    engine_version._known.clear()


@pytest.fixture
def preset(tmp_path: Path) -> Preset:
    return make_preset("first", make_model_file(tmp_path / "a.gguf"), ctx_size=4096)


def engine_that_lists(settings: Any, *lines: str) -> None:
    program = Path(settings.CORRAL_LLAMA_SERVER)
    listing = "".join(f"  {line}\\n" for line in lines)
    program.write_text(
        "#!/bin/sh\n"
        f"case $1 in --list-devices) printf 'Available devices:\\n{listing}' ;;"
        f" *) cat '{HELP}' ;; esac\n"
    )


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"device": "CUDA0"}, ""),
        ({"device": "none"}, ""),
        ({"device": "CUDA0,CUDA7"}, "CUDA7"),
        ({"device": "Host"}, "Host"),
        ({"device": "cuda0"}, "cuda0"),  # memory is counted by the name as it is written
        ({"device-draft": "Vulkan0"}, "Vulkan0"),
        ({"mmproj-device": "ROCm0"}, "ROCm0"),
        ({"device": "RPC0"}, "RPC0"),
        ({"device": "RPC3", "rpc": "gpu:50052"}, ""),  # it may have many devices, and may be away
        ({"override-tensor": "exps=CPU,a=CUDA0"}, ""),
        ({"override-tensor": r"blk\.[0-3]=CUDA1,exps=CPU,x=CUDA1"}, "CUDA1"),
        ({"override-tensor": "a=RPC0[gpu:50052]", "rpc": "gpu:50052"}, ""),
        ({"override-tensor": "a=RPC0[gpu:1]", "rpc": "gpu:50052"}, "RPC0[gpu:1]"),
        ({"override-tensor-draft": "a=Metal"}, "Metal"),
    ],
)
def test_what_an_option_names_is_looked_for_among_the_devices(
    options: dict[str, str], missing: str
) -> None:
    told = device_warnings(options)

    assert [warning.partition(", which")[0] for warning in told] == (
        [f"{next(key for key in options if key != 'rpc')} names {missing}"] if missing else []
    )


def test_without_a_scheduler_the_engine_is_asked(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scheduler(monkeypatch, away())
    engine_that_lists(settings, "Vulkan0: a stand-in (1000 MiB, 900 MiB free)")

    assert device_warnings({"device": "Vulkan0"}) == []
    [told] = device_warnings({"device": "CUDA0"})
    assert "it knows Vulkan0, none." in told


def test_an_engine_that_lists_none_is_believed_and_one_that_says_nothing_is_not(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_scheduler(monkeypatch, away())
    assert device_names.known_devices() is None
    assert device_warnings({"device": "CUDA0"}) == []

    engine_that_lists(settings, "(none)")
    engine_version._known.clear()
    [told] = device_warnings({"device": "CUDA0"})
    assert "it knows none." in told


def test_nobody_is_asked_for_options_that_name_no_device(scheduler: FakeScheduler) -> None:
    assert device_warnings({"ctx-size": "4096", "device": ""}) == []

    assert scheduler.asked == []


def test_saving_is_done_and_warned_of(admin_client: Client, preset: Preset) -> None:
    form = sent(preset, extra_options="device = CUDA7")

    answer = admin_client.post(url_of(preset), form, follow=True)

    assert Preset.objects.get().extra_options == "device = CUDA7"
    assert [str(each) for each in answer.context["messages"] if each.level_tag == "warning"] == [
        f"first: {MISSING}"
    ]


def test_the_page_says_so_once_wherever_the_option_comes_from(
    admin_client: Client, preset: Preset
) -> None:
    GlobalPreset.objects.create(options="device = CUDA7")
    assert opened(admin_client, preset).count(MISSING) == 1

    form = sent(preset, ctx_size=8192, _continue="1")
    answer = admin_client.post(url_of(preset), form, follow=True)

    assert answer.content.decode().count(MISSING) == 1


def test_a_preset_that_names_what_is_there_is_told_nothing(
    admin_client: Client, preset: Preset
) -> None:
    Preset.objects.update(extra_options="device = CUDA0")

    assert "which this machine does not have" not in opened(admin_client, preset)


def test_the_management_api_tells_it_too(manager: Manager, preset: Preset) -> None:
    Preset.objects.update(extra_options="device = CUDA7")

    told = manager.get(f"/presets/{preset.name}/effective").json

    assert told["warnings"] == [MISSING]
