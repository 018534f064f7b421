"""Variables of the environment: what each may hold, and that nonsense is told with its name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from routerproj.environment import Environment

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("on", True), ("TRUE", True), ("0", False), ("Off", False)]
)
def test_a_flag_is_read_as_llama_cpp_reads_it(value: str, expected: bool) -> None:
    assert Environment({"A": value}).flag("A", default=not expected) is expected


def test_an_empty_variable_is_an_unset_one() -> None:
    environment = Environment({"A": "", "B": " "})

    assert environment.whole("A", default=3) == 3
    assert environment.flag("B", default=True) is True
    assert environment.words("A", default=("x",)) == ["x"]
    assert environment.table("A") == {}


def test_our_own_name_goes_before_llama_cpps() -> None:
    environment = Environment({"LLAMA_ARG_PORT": "1", "CORRAL_PORT": "2"})

    assert environment.whole("CORRAL_PORT", "LLAMA_ARG_PORT", default=0) == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda e: e.whole("A", default=1),
        lambda e: e.seconds("A", default=1.0),
        lambda e: e.factor("A", default=1.0, least=1.0, most=16.0),
        lambda e: e.flag("A", default=True),
        lambda e: e.table("A"),
        lambda e: e.choice("A", default="x", among=("x", "y")),
    ],
    ids=["whole", "seconds", "factor", "flag", "table", "choice"],
)
@pytest.mark.parametrize("value", ["nonsense", "-1", "inf", "[1]", '{"a": 1}'])
def test_nonsense_is_refused_with_the_variables_name(ask: object, value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^A="):
        ask(Environment({"A": value}))  # type: ignore[operator]


@pytest.mark.parametrize("value", ["0", "65536", "1e3", "0x10"])
def test_a_number_out_of_range_is_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^A="):
        Environment({"A": value}).whole("A", default=1, least=1, most=65535)


@pytest.mark.parametrize(
    ("value", "expected"), [("", None), ("-1", None), ("0", 0.0), ("300", 300.0), ("1.5", 1.5)]
)
def test_a_keep_alive_that_is_unset_or_minus_one_is_none(
    value: str, expected: float | None
) -> None:
    assert Environment({"A": value}).idle_seconds("A") == expected


@pytest.mark.parametrize("value", ["-2", "5m", "inf", "nan"])
def test_nonsense_as_keep_alive_is_refused_with_the_variables_name(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^A="):
        Environment({"A": value}).idle_seconds("A")


@pytest.mark.parametrize("value", ["0.5", "17"])
def test_a_factor_out_of_range_is_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^A=.* from 1 to 16"):
        Environment({"A": value}).factor("A", default=1.0, least=1.0, most=16.0)


SETTINGS = """
from routerproj import settings
print(settings.CORRAL_PORT, settings.CORRAL_MODELS_MAX, settings.CORRAL_MODELS_AUTOLOAD,
      settings.CORRAL_API_KEYS, "daphne" in settings.INSTALLED_APPS)
"""


def settings_with(
    var: Path, program: str = SETTINGS, **variables: str
) -> subprocess.CompletedProcess[str]:
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("CORRAL_", "LLAMA_", "OLLAMA_"))
    }
    return subprocess.run(
        [sys.executable, "-c", program],
        env=kept | {"CORRAL_VAR": str(var)} | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_llama_cpps_names_set_the_router_too(tmp_path: Path) -> None:
    done = settings_with(
        tmp_path,
        LLAMA_ARG_PORT="1234",
        LLAMA_ARG_MODELS_MAX="2",
        LLAMA_ARG_NO_MODELS_AUTOLOAD="1",
        LLAMA_API_KEY="a,b",
    )

    assert done.stdout == "1234 2 False ['a', 'b'] False\n"


def test_ollamas_names_are_defaults_below_llama_cpps(tmp_path: Path) -> None:
    ollamas = {"OLLAMA_MAX_LOADED_MODELS": "7", "OLLAMA_NUM_PARALLEL": "2"}
    program = "import os; from routerproj import settings\n" + (
        "print(settings.CORRAL_MODELS_MAX, os.environ['LLAMA_ARG_N_PARALLEL'])"
    )

    assert settings_with(tmp_path, program, **ollamas).stdout == "7 2\n"
    above = settings_with(tmp_path, program, **ollamas, LLAMA_ARG_MODELS_MAX="3")
    assert above.stdout == "3 2\n"


def test_a_state_folder_is_made_for_its_owner_only(tmp_path: Path) -> None:
    var = tmp_path / "new" / "var"

    assert settings_with(var).returncode == 0
    assert var.stat().st_mode & 0o777 == 0o700
    assert (var / "secret").stat().st_mode & 0o777 == 0o600


def test_a_secret_key_that_is_too_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("guess")

    done = settings_with(tmp_path)

    assert "holds no usable secret key" in done.stderr


def test_a_residency_longer_than_the_wait_is_refused_with_both_names(tmp_path: Path) -> None:
    done = settings_with(tmp_path, CORRAL_MIN_RESIDENCY="40", CORRAL_MAX_WAIT="20")

    assert "CORRAL_MIN_RESIDENCY=40 is more than CORRAL_MAX_WAIT=20" in done.stderr


MEMORY = """
from routerproj import settings
print([settings.CORRAL_DEVICE_BUDGET, settings.CORRAL_MEMORY_MARGIN, settings.CORRAL_CACHE_RAM,
       settings.CORRAL_CONTEXT_PER_SLOT, settings.CORRAL_MEASURE_WAIT])
"""


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, "['', '', 512, 8192, 10.0]"),
        (
            {
                "CORRAL_DEVICE_BUDGET": "CUDA0=20GiB, Host=50%",
                "LLAMA_ARG_MODELS_MEMORY_MARGIN": "2048",
                "CORRAL_CACHE_RAM": "0",
                "CORRAL_CONTEXT_PER_SLOT": "16384",
                "CORRAL_MEASURE_WAIT": "2.5",
            },
            "['CUDA0=20GiB, Host=50%', '2048', 0, 16384, 2.5]",
        ),
        (
            {"LLAMA_ARG_MODELS_MEMORY_MARGIN": "2048", "CORRAL_MEMORY_MARGIN": "CUDA0=1"},
            "['', 'CUDA0=1', 512, 8192, 10.0]",
        ),
    ],
)
def test_what_memory_may_be_used_is_said_in_variables(
    tmp_path: Path, variables: dict[str, str], told: str
) -> None:
    assert settings_with(tmp_path, MEMORY, **variables).stdout.strip() == told


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("CORRAL_DEVICE_BUDGET", "CUDA0=-1GiB", "is negative"),
        ("CORRAL_DEVICE_BUDGET", "20GiB", "names no device"),
        ("CORRAL_MEMORY_MARGIN", "much", "cannot be read"),
        ("LLAMA_ARG_MODELS_MEMORY_MARGIN", "1,2", "two numbers"),
    ],
)
def test_a_limit_of_devices_that_means_nothing_stops_the_start(
    tmp_path: Path, name: str, value: str, words: str
) -> None:
    [complaint] = [
        line
        for line in settings_with(tmp_path, **{name: value}).stderr.splitlines()
        if f"{name}: " in line
    ]

    assert words in complaint


SCHEDULER = """
import django, json
from dataclasses import asdict
django.setup()
from scheduler.conf import scheduler_config
from scheduler.core.values import Config
config = scheduler_config()
own = (
    config.health_every_seconds, config.health_tries, config.step_timeout_seconds,
    config.answer_tokens, config.event_log,
)
print(json.dumps([asdict(config.planner), asdict(Config()), own]))
"""


def scheduler_with(var: Path, **variables: str) -> list[Any]:
    """What the planner is told, what it would take by itself, and what is the shell's own."""
    done = settings_with(var, SCHEDULER, DJANGO_SETTINGS_MODULE="routerproj.settings", **variables)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def test_the_settings_defaults_are_the_planners_own(tmp_path: Path) -> None:
    planner, default, own = scheduler_with(tmp_path)

    assert planner == default
    assert own == [5.0, 3, 600.0, 1024, False]


def test_every_variable_of_the_scheduler_reaches_it(tmp_path: Path) -> None:
    planner, default, own = scheduler_with(
        tmp_path,
        CORRAL_MAX_WAIT="21",
        CORRAL_QUANTUM="22",
        CORRAL_MIN_RESIDENCY="20",
        CORRAL_MODEL_KEEP_ALIVE="24",
        CORRAL_OVERSUBSCRIBE="1.5",
        CORRAL_MAX_PRIORITY_JUMP="26",
        CORRAL_VICTIM_POLICY="lru",
        CORRAL_QUEUE_LIMIT_PER_MODEL="28",
        CORRAL_QUEUE_LIMIT_PER_TENANT="29",
        CORRAL_HEALTH_EVERY="0",
        CORRAL_HEALTH_TRIES="2",
        CORRAL_STEP_TIMEOUT="60",
        CORRAL_ANSWER_TOKENS="31",
        CORRAL_EVENT_LOG="1",
    )

    assert {name: value for name, value in planner.items() if value != default[name]} == {
        "max_wait_seconds": 21.0,
        "quantum_seconds": 22.0,
        "min_residency_seconds": 20.0,
        "keep_alive_seconds": 24.0,
        "oversubscribe": 1.5,
        "max_priority_jump_seconds": 26.0,
        "victim_policy": "lru",
        "queue_limit_per_preset": 28,
        "queue_limit_per_tenant": 29,
    }
    assert own == [0.0, 2, 60.0, 31, True]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CORRAL_MAX_WAIT", "-1"),
        ("CORRAL_QUANTUM", "soon"),
        ("CORRAL_MIN_RESIDENCY", "nan"),
        ("CORRAL_MODEL_KEEP_ALIVE", "5m"),
        ("CORRAL_OVERSUBSCRIBE", "0"),
        ("CORRAL_MAX_PRIORITY_JUMP", "inf"),
        ("CORRAL_VICTIM_POLICY", "mru"),
        ("CORRAL_QUEUE_LIMIT_PER_MODEL", "1.5"),
        ("CORRAL_QUEUE_LIMIT_PER_TENANT", "-1"),
        ("CORRAL_HEALTH_EVERY", "-1"),
        ("CORRAL_HEALTH_TRIES", "0"),
        ("CORRAL_STEP_TIMEOUT", "-1"),
        ("CORRAL_ANSWER_TOKENS", "-1"),
        ("CORRAL_EVENT_LOG", "yes please"),
        ("CORRAL_CACHE_RAM", "-1"),
        ("CORRAL_CONTEXT_PER_SLOT", "255"),
        ("CORRAL_MEASURE_WAIT", "inf"),
    ],
)
def test_nonsense_stops_the_start_with_the_variables_name(
    tmp_path: Path, name: str, value: str
) -> None:
    done = settings_with(tmp_path, **{name: value})

    assert f"{name}={value!r} is not" in done.stderr
