"""A newcomer's first minute: what the first run makes, prints, and answers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway, gateway

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The demo model, and nothing that anybody set up."""
    folder = tmp_path_factory.mktemp("first")
    with gateway(folder, env={"CORRAL_DEMO": "1"}, models={}, tables=False) as running:
        yield running


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_printed_curl_line_streams_a_real_answer(first: Gateway) -> None:
    answer = _paste(_curl_line(first), {})

    assert answer.rstrip().endswith("data: [DONE]")
    assert '"model":"smollm2"' in answer


def test_the_printed_key_counts_and_no_other(first: Gateway) -> None:
    assert first.client.request("GET", "/v1/models").status == 200
    assert first.client.request("GET", "/v1/models", key="ck_wrong").status == 401


def test_the_demo_model_comes_as_two_presets(first: Gateway) -> None:
    assert set(first.models()) == {"smollm2", "smollm2-long"}


def test_the_state_folder_is_its_owners_only(first: Gateway) -> None:
    assert first.var.stat().st_mode & 0o077 == 0
    assert (first.var / "secret").stat().st_mode & 0o177 == 0


def test_the_admin_account_can_log_in(first: Gateway) -> None:
    password = next(
        found[1] for line in first.output if (found := re.search(r"password\s+(\S{12,})", line))
    )

    first.django(
        "from django.contrib.auth.models import User; admin = User.objects.get(username='admin'); "
        f"assert admin.is_superuser and admin.check_password('{password}')"
    )


def test_createkey_prints_a_key_that_works(first: Gateway) -> None:
    created = first.manage("createkey", "second")

    key = created.stdout.splitlines()[-1]
    assert first.client.request("GET", "/v1/models", key=key).status == 200


def test_a_later_start_prints_no_secret_and_a_line_for_the_key_one_has(tmp_path: Path) -> None:
    with gateway(tmp_path, models={"alpha": {}}) as later:
        printed = "\n".join(later.output)
        answer = _paste(_curl_line(later), {"CORRAL_KEY": later.key})

    assert "ck_" not in printed
    assert "password" not in printed
    assert answer.rstrip().endswith("data: [DONE]")


def test_without_keys_nobody_has_to_show_one(tmp_path: Path) -> None:
    with gateway(tmp_path, args=["--no-auth"], models={}) as running:
        listed = running.client.request("GET", "/v1/models", key="")
        rebound = running.client.request("GET", "/v1/models", headers={"Host": "evil.example"})

    assert (listed.status, rebound.status) == (200, 403)


def _curl_line(running: Gateway) -> str:
    return next(line for line in running.output if line.startswith("curl "))


def _paste(line: str, env: dict[str, str]) -> str:
    pasted = subprocess.run(
        ["sh", "-c", line], env=os.environ | env, capture_output=True, text=True, timeout=120
    )
    assert pasted.returncode == 0, pasted.stderr
    return pasted.stdout
