"""Guessing passwords: ten tries, then a wait, for that account from that address alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import F
from django.test import Client, RequestFactory

from models_registry.client_address import client_address, parse_proxies
from routerproj.login_throttle import client_network

pytestmark = pytest.mark.each_database

PASSWORD = "long enough 7"
LOGINS = ("/account/login/", "/admin/login/")


@pytest.fixture
def anna(db: None) -> User:
    return User.objects.create_superuser("anna", password=PASSWORD)


def log_in(
    password: str = PASSWORD, *, name: str = "anna", at: str = LOGINS[0], **meta: Any
) -> Any:
    form = {"username": name, "password": password}
    return Client(raise_request_exception=False).post(at, form, **meta)


@pytest.mark.parametrize("page", LOGINS)
def test_of_twenty_tries_the_last_ones_are_429_and_say_when_to_come_back(
    anna: User, page: str
) -> None:
    answers = [log_in(f"guess {number}", at=page) for number in range(20)]

    assert [answer.status_code for answer in answers] == [200] * 9 + [429] * 11
    assert 890 < int(answers[-1]["Retry-After"]) <= 900
    assert "in 15 minutes" in answers[-1].content.decode()
    assert log_in(at=page).status_code == 429, "the right password, too early"


def test_both_log_ins_count_together_and_browsers_do_not_count_apart(anna: User) -> None:
    for number in range(10):
        log_in("guess", at=LOGINS[number % 2], HTTP_USER_AGENT=f"browser {number}")

    assert log_in().status_code == 429


def test_a_stranger_locks_nobody_out_from_elsewhere_and_no_other_account(anna: User) -> None:
    User.objects.create_user("bert", password=PASSWORD)
    for _ in range(12):
        log_in("guess")

    assert log_in(REMOTE_ADDR="192.0.2.7").status_code == 302
    assert log_in(name="bert").status_code == 302


def test_one_gets_in_again_when_the_wait_is_over_and_more_tries_do_not_make_it_longer(
    anna: User,
) -> None:
    for _ in range(10):
        log_in("guess")
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(seconds=600))

    refused = log_in("guess")
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(seconds=301))

    assert int(refused["Retry-After"]) <= 300
    assert log_in().status_code == 302


def test_a_right_password_forgets_the_wrong_ones(anna: User) -> None:
    for _ in range(3):
        for _ in range(9):
            log_in("guess")
        assert log_in().status_code == 302


def test_the_command_lifts_the_wait(anna: User) -> None:
    for _ in range(10):
        log_in("guess")

    call_command("axes_reset_username", "anna", verbosity=0)

    assert log_in().status_code == 302


def test_no_password_is_written_down(anna: User) -> None:
    log_in("a canary as password", name="nobody at all")

    assert "canary" not in str(list(AccessAttempt.objects.values()))


def test_a_name_that_the_database_cannot_hold_is_no_error(anna: User) -> None:
    for name in ("a\0b", "x" * 5000, "\N{OX}"):
        assert log_in(name=name).status_code == 200

    assert max(len(each.username) for each in AccessAttempt.objects.all()) == 150


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.0.0.2", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.2", "1.2.3.4, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.2", "198.51.100.1, 10.0.0.3", "198.51.100.1"),
        ("::ffff:10.0.0.2", "::ffff:198.51.100.1", "198.51.100.1"),
        ("10.0.0.2", "", None),
        ("10.0.0.2", "unknown", None),
        ("", "198.51.100.1", None),
    ],
)
def test_only_our_own_proxies_say_where_somebody_came_from(
    settings: Any, peer: str, forwarded: str, client: str | None
) -> None:
    settings.CORRAL_TRUSTED_PROXIES = parse_proxies("10.0.0.0/8")
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    request = RequestFactory().get("/", headers=headers, REMOTE_ADDR=peer)

    assert client_address(request) == client


def test_all_addresses_of_one_house_count_as_one() -> None:
    houses = {
        client_network(RequestFactory().get("/", REMOTE_ADDR=address))
        for address in ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9")
    }

    assert houses == {"2001:db8:1:2::"}


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/33.*write addresses or networks"):
        parse_proxies("10.0.0.0/33")
