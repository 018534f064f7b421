"""Variables of the environment: what each may hold, and that nonsense is told with its name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
        lambda e: e.flag("A", default=True),
        lambda e: e.table("A"),
        lambda e: e.choice("A", default="x", among=("x", "y")),
    ],
    ids=["whole", "seconds", "flag", "table", "choice"],
)
@pytest.mark.parametrize("value", ["nonsense", "-1", "inf", "[1]", '{"a": 1}'])
def test_nonsense_is_refused_with_the_variables_name(ask: object, value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^A="):
        ask(Environment({"A": value}))  # type: ignore[operator]


@pytest.mark.parametrize("value", ["0", "65536", "1e3", "0x10"])
def test_a_number_out_of_range_is_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^A="):
        Environment({"A": value}).whole("A", default=1, least=1, most=65535)


SETTINGS = """
from routerproj import settings
print(settings.CORRAL_PORT, settings.CORRAL_MODELS_MAX, settings.CORRAL_MODELS_AUTOLOAD,
      settings.CORRAL_API_KEYS, "daphne" in settings.INSTALLED_APPS)
"""


def settings_with(var: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CORRAL_", "LLAMA_"))}
    return subprocess.run(
        [sys.executable, "-c", SETTINGS],
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


def test_a_state_folder_is_made_for_its_owner_only(tmp_path: Path) -> None:
    var = tmp_path / "new" / "var"

    assert settings_with(var).returncode == 0
    assert var.stat().st_mode & 0o777 == 0o700
    assert (var / "secret").stat().st_mode & 0o777 == 0o600


def test_a_secret_key_that_is_too_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("guess")

    done = settings_with(tmp_path)

    assert "holds no usable secret key" in done.stderr
