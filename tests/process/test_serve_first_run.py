"""What `serve` prints and makes on its first start, and no more on the second."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.process.serving import first_served, served, text_of
from tests.support.gateway import Gateway

pytestmark = pytest.mark.slow


def test_account_and_key_are_shown_on_the_first_start_only(tmp_path: Path) -> None:
    with first_served(tmp_path) as first:
        text = text_of(first)
        key = re.search(r"ck_\w+_[\w-]+", text)
        assert key
        assert re.search(r"password \S{12,}", text)
        assert first.client.request("GET", "/v1/models", key=key[0]).status == 200
        assert first.client.request("GET", "/v1/models", key="ck_wrong").status == 401
    assert first.process.returncode == 0

    with served(tmp_path) as second:
        assert "password" not in text_of(second)
        assert "ck_" not in text_of(second)
        assert second.client.request("GET", "/v1/models", key=key[0]).status == 200

    secret = tmp_path / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600


def test_the_password_shown_opens_the_admin(tmp_path: Path) -> None:
    with first_served(tmp_path) as running:
        password = re.search(r"password (\S+)", text_of(running))
        assert password
        code = (
            "from django.contrib.auth import authenticate;"
            f"assert authenticate(username='admin', password={password[1]!r}).is_superuser"
        )
        running.django(code)


@pytest.mark.engine
def test_the_curl_line_works_when_it_is_pasted(tmp_path: Path) -> None:
    # One thread: two wait for each other at each step where the machine has other things to do
    with first_served(tmp_path, "-t", "1", CORRAL_DEMO="1") as running:
        line = _curl_line(running)
        assert "$CORRAL_KEY" not in line
        answer = subprocess.run(
            shlex.split(line), capture_output=True, text=True, timeout=120, check=True
        )

    assert "data: [DONE]" in answer.stdout


def test_without_keys_nobody_has_to_show_one(tmp_path: Path) -> None:
    with served(tmp_path, "--no-auth") as running:
        assert running.client.request("GET", "/v1/models", key="").status == 200
        rebound = {"Host": "evil.example"}
        assert running.client.request("GET", "/v1/models", headers=rebound).status == 403


def _curl_line(running: Gateway) -> str:
    return next(line for line in running.output if line.startswith("curl "))
