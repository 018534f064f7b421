"""A session whose second factor is awaited is nobody's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from django_otp.oath import totp
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from proxy.account import second_factor as factor

pytestmark = pytest.mark.each_database

PASSWORD = "long enough 7"
PAGE = "/account/second-factor/"


@pytest.fixture
def anna(db: None) -> User:
    return User.objects.create_superuser("anna", password=PASSWORD)


@pytest.fixture
def required(settings: Any) -> None:
    settings.CORRAL_STAFF_SECOND_FACTOR = "required"


def log_in(name: str = "anna") -> Client:
    client = Client()
    client.post("/account/login/", {"username": name, "password": PASSWORD})
    return client


def code_of(user: User, *, steps: int = 0) -> str:
    """`steps` of half a minute from now; each code is good once."""
    device = TOTPDevice.objects.get(user=user)
    return f"{totp(device.bin_key, drift=steps):06}"


def enrol(client: Client, user: User) -> list[str]:
    """Its recovery codes."""
    client.post(f"{PAGE}start/", {"password": PASSWORD})
    answer = client.post(f"{PAGE}confirm/", {"code": code_of(user)})
    codes: list[str] = answer.context["codes"]
    return codes


def forget_throttle() -> None:
    for devices in (TOTPDevice.objects, StaticDevice.objects):
        devices.update(throttling_failure_count=0, throttling_failure_timestamp=None)


def test_a_session_opens_with_a_code_after_the_password(anna: User) -> None:
    enrol(log_in(), anna)

    client = log_in()
    shut = client.get("/admin/?a=b")
    opened = client.post(f"{PAGE}check/", {"code": code_of(anna, steps=1), "next": "/admin/?a=b"})

    assert (shut.status_code, shut["Location"]) == (302, f"{PAGE}?next=%2Fadmin%2F%3Fa%3Db")
    assert (opened.status_code, opened["Location"]) == (302, "/admin/?a=b")
    assert client.get("/admin/").status_code == 200


def test_until_then_no_page_and_no_program_knows_them(anna: User) -> None:
    enrol(log_in(), anna)
    client = log_in()

    for path in ("/account/", "/admin/models_registry/preset/", "/account/password/"):
        assert client.get(path)["Location"].startswith(PAGE), path
    assert client.post("/account/", {"name": "laptop"})["Location"] == PAGE
    program = client.get("/router/api/presets")
    assert program.status_code == 403
    assert "second factor" in program.json()["error"]["message"]


def test_where_it_is_required_staff_can_do_nothing_but_get_one(anna: User, required: None) -> None:
    client = log_in()

    assert client.get("/admin/")["Location"].startswith(PAGE)
    assert "Get one now" in client.get(PAGE).content.decode()
    enrol(client, anna)

    assert client.get("/admin/").status_code == 200
    refused = client.post(f"{PAGE}remove/", {"code": code_of(anna, steps=1)})
    assert (refused.status_code, factor.device_of(anna) is None) == (403, False)


def test_where_it_is_required_others_than_staff_need_none(db: None, required: None) -> None:
    User.objects.create_user("mia", password=PASSWORD)

    assert log_in("mia").get("/account/").status_code == 200


def test_where_it_is_off_nobody_is_asked_and_there_is_no_page(anna: User, settings: Any) -> None:
    enrol(log_in(), anna)
    settings.CORRAL_STAFF_SECOND_FACTOR = "off"

    client = log_in()

    assert client.get("/admin/").status_code == 200
    assert client.get(PAGE).status_code == 404


def test_a_recovery_code_opens_one_session(anna: User) -> None:
    codes = enrol(log_in(), anna)
    first, second = log_in(), log_in()

    assert first.post(f"{PAGE}check/", {"code": codes[0].upper()}).status_code == 302
    assert second.post(f"{PAGE}check/", {"code": codes[0]}).status_code == 403

    assert len(set(codes)) == 10
    assert factor.recovery_codes_left(anna) == 9
    assert second.get("/account/")["Location"].startswith(PAGE)


def test_a_code_of_the_app_is_good_once(anna: User) -> None:
    enrol(log_in(), anna)
    code = code_of(anna, steps=1)
    first, second = log_in(), log_in()

    assert first.post(f"{PAGE}check/", {"code": code}).status_code == 302
    assert second.post(f"{PAGE}check/", {"code": code}).status_code == 403


@pytest.mark.parametrize("code", ["000000", "", "abcdefgh", "1" * 1000, "١٢٣٤٥٦", "a\0b"])
def test_a_wrong_code_opens_nothing_and_the_next_one_has_to_wait(anna: User, code: str) -> None:
    enrol(log_in(), anna)
    for devices in (TOTPDevice.objects, StaticDevice.objects):
        devices.update(
            throttling_failure_count=5, throttling_failure_timestamp=timezone.now() - timedelta(1)
        )
    client = log_in()

    wrong = client.post(f"{PAGE}check/", {"code": code})
    right = client.post(f"{PAGE}check/", {"code": code})

    assert wrong.status_code == 403
    assert right.status_code == 429
    assert 1 <= int(right["Retry-After"]) <= 32
    assert client.get("/account/")["Location"].startswith(PAGE)


@pytest.mark.parametrize(("minutes", "status"), [(16, 429), (18, 302)])
def test_a_stranger_with_the_password_does_not_keep_its_owner_out_for_days(
    anna: User, minutes: int, status: int
) -> None:
    enrol(log_in(), anna)
    TOTPDevice.objects.update(
        throttling_failure_count=40,
        throttling_failure_timestamp=timezone.now() - timedelta(minutes=minutes),
    )

    answer = log_in().post(f"{PAGE}check/", {"code": code_of(anna, steps=1)})

    assert answer.status_code == status


def test_getting_one_takes_the_password(anna: User) -> None:
    client = log_in()

    answer = client.post(f"{PAGE}start/", {"password": "not it"})

    assert answer.status_code == 403
    assert not TOTPDevice.objects.exists()


def test_a_draft_is_in_force_only_after_a_code_of_it(anna: User) -> None:
    client = log_in()
    client.post(f"{PAGE}start/", {"password": PASSWORD})

    assert client.post(f"{PAGE}confirm/", {"code": "000000"}).status_code == 403

    assert log_in().get("/account/").status_code == 200


def test_the_secret_is_shown_as_a_picture_and_as_text_once(anna: User) -> None:
    client = log_in()

    shown = client.post(f"{PAGE}start/", {"password": PASSWORD})

    assert b"<svg" in shown.content
    assert shown.context["secret"].replace(" ", "").isalnum()
    assert "no-store" in shown["Cache-Control"]
    assert shown.context["secret"].encode() not in client.get(PAGE).content


def test_who_has_not_shown_it_does_not_replace_it(anna: User) -> None:
    enrol(log_in(), anna)
    device = factor.device_of(anna)
    client = log_in()

    client.post(f"{PAGE}start/", {"password": PASSWORD})
    client.post(f"{PAGE}confirm/", {"code": "000000"})
    for step in ("recovery", "remove"):
        assert client.post(f"{PAGE}{step}/", {"code": "x"})["Location"] == PAGE

    assert list(TOTPDevice.objects.all()) == [device]


def test_getting_one_ends_the_other_sessions(anna: User) -> None:
    other, mine = log_in(), log_in()

    enrol(mine, anna)

    assert other.get("/account/")["Location"].startswith("/account/login/")
    assert mine.get("/account/").status_code == 200


def test_one_can_do_without_it_again(anna: User) -> None:
    client = log_in()
    codes = enrol(client, anna)

    assert client.post(f"{PAGE}remove/", {"code": codes[0]}).status_code == 302

    assert log_in().get("/account/").status_code == 200
    assert not StaticDevice.objects.exists()


def test_the_command_takes_it_away_and_ends_the_sessions(anna: User, capsys: Any) -> None:
    client = log_in()
    enrol(client, anna)

    call_command("resetsecondfactor", "anna")

    assert "1 sessions ended" in capsys.readouterr().out
    assert client.get("/account/")["Location"].startswith("/account/login/")
    assert log_in().get("/account/").status_code == 200
    with pytest.raises(CommandError, match="No user is called 'nobody'"):
        call_command("resetsecondfactor", "nobody")


def test_one_is_led_nowhere_else_afterwards(anna: User) -> None:
    enrol(log_in(), anna)

    answer = log_in().post(
        f"{PAGE}check/", {"code": code_of(anna, steps=1), "next": "https://evil.example/"}
    )

    assert answer["Location"] == "/account/"


def test_the_admin_shows_nobodys_secret(admin_client: Client) -> None:
    for model in ("otp_totp/totpdevice", "otp_static/staticdevice"):
        assert admin_client.get(f"/admin/{model}/").status_code == 404


def test_a_changed_password_ends_the_other_sessions(anna: User) -> None:
    other, mine = log_in(), log_in()
    new = "quite another one 8"

    mine.post(
        "/account/password/",
        {"old_password": PASSWORD, "new_password1": new, "new_password2": new},
    )

    assert mine.get("/account/").status_code == 200
    assert other.get("/account/")["Location"].startswith("/account/login/")
