"""The settings that docs/production/ ships, and what browsers are told under them and without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from routerproj.page_policy import content_security_policy
from tests.support.prepared import MANAGE, clean_environment

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "docs/production/corral.env"


def shipped() -> dict[str, str]:
    lines = [line for line in SHIPPED.read_text().splitlines() if line and line[0] != "#"]
    return dict(line.split("=", 1) for line in lines)


def deploy_check(var: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(MANAGE), "check", "--deploy", "--tag", "security",
         "--fail-level", "WARNING"],
        env=clean_environment() | variables | {"CORRAL_VAR": str(var)},
        capture_output=True,
        text=True,
        timeout=60,
    )  # fmt: skip


def test_djangos_deployment_check_is_clean_with_the_shipped_settings(tmp_path: Path) -> None:
    done = deploy_check(tmp_path / "var", **shipped())

    assert done.returncode == 0, done.stderr


def test_and_says_so_where_there_is_no_tls(tmp_path: Path) -> None:
    """It is the settings that make it clean, not a silence."""
    done = deploy_check(tmp_path / "var", **{**shipped(), "CORRAL_HTTPS": "0"})

    assert done.returncode == 1
    for check in ("W004", "W008", "W012", "W016"):
        assert f"security.{check}" in done.stderr


@pytest.fixture
def behind_tls(settings: Settings) -> None:
    """As settings.py sets them with CORRAL_HTTPS=1, which the first test reads from there."""
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_HSTS_SECONDS = 3600
    settings.SESSION_COOKIE_SECURE = True
    settings.CSRF_COOKIE_SECURE = True


TLS = {"x-forwarded-proto": "https"}


@pytest.mark.django_db
@pytest.mark.usefixtures("behind_tls")
def test_behind_tls_cookies_stay_with_it_and_browsers_are_told_to() -> None:
    User.objects.create_superuser("root", password="a long one")
    client = Client(headers=TLS)
    client.get("/admin/login/")
    answer = client.post("/admin/login/", {"username": "root", "password": "a long one"})

    assert answer.status_code == 302
    assert answer.headers["Strict-Transport-Security"] == "max-age=3600"
    assert all(cookie["secure"] and cookie["httponly"] for cookie in client.cookies.values())
    assert {cookie["samesite"] for cookie in client.cookies.values()} == {"Lax"}


@pytest.mark.usefixtures("behind_tls")
def test_without_tls_a_page_is_not_shown_and_a_program_is_not_sent_elsewhere() -> None:
    page, program = Client().get("/admin/"), Client().get("/router/api/status")

    assert page.headers["Location"].startswith("https://")
    assert program.status_code == 401


def test_a_session_lasts_no_longer_than_a_day_of_work() -> None:
    assert django_settings.SESSION_COOKIE_AGE <= 12 * 3600
    assert django_settings.SESSION_COOKIE_HTTPONLY


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/admin/login/", "/admin/", "/account/", "/router/api/docs", "/admin/nosuch/"]
)
def test_every_page_says_what_it_may_do(path: str, admin_client: Client) -> None:
    answer = admin_client.get(path, headers={"accept": "text/html"}, follow=True)

    assert answer.headers["Content-Type"].startswith("text/html")
    assert answer.headers["Content-Security-Policy"] == content_security_policy()
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"


def test_no_script_within_a_page_is_run_nor_one_from_elsewhere() -> None:
    """Otherwise a name that carries one would be."""
    rules = dict(rule.split(" ", 1) for rule in content_security_policy().split("; "))

    assert rules["script-src"] == "'self' 'unsafe-eval'"
    assert "unsafe-inline" not in rules["default-src"]
    assert rules["frame-ancestors"] == rules["object-src"] == rules["base-uri"] == "'none'"


def test_an_origin_may_be_added_to_where_forms_lead() -> None:
    policy = content_security_policy(("https://login.example.com",))

    assert "form-action 'self' https://login.example.com;" in policy
