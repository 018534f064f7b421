"""Somebody who may enter the admin gets a second factor, and is asked for it at the next log-in."""

from __future__ import annotations

from base64 import b32decode

import pytest
from django_otp.oath import totp
from playwright.sync_api import expect

from tests.support.browsing import PASSWORD, Desk

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NOBODY_ELSES = """
from django.contrib.auth.models import User
User.objects.create_superuser("otto", password={password!r})
"""


def code_of(secret: str, *, steps: int = 0) -> str:
    """`steps` of half a minute from now: each is good once."""
    text = secret.replace(" ", "")
    return f"{totp(b32decode(text + '=' * (-len(text) % 8)), drift=steps):06}"


def test_a_second_factor_is_set_up_and_asked_for(desk: Desk) -> None:
    desk.gateway.django(NOBODY_ELSES.format(password=PASSWORD))
    page = desk.logged_in("otto", width=390)
    page.goto("/account/")
    page.get_by_role("link", name="Second factor").click()
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Begin").click()
    expect(page.locator("svg.segno")).to_be_visible()
    wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    secret = page.locator("#corral-secret").inner_text()
    page.get_by_label("Code of your app").fill(code_of(secret))
    page.get_by_role("button", name="Use it from now on").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()

    again = desk.page()
    again.goto("/admin/models_registry/preset/")
    again.get_by_label("Username").fill("otto")
    again.get_by_label("Password").fill(PASSWORD)
    again.get_by_role("button", name="Log in").click()
    again.get_by_label("Code of your app").fill(code_of(secret, steps=1))
    again.get_by_role("button", name="Go on").click()

    expect(again.get_by_role("heading", name="Presets")).to_be_visible()
    assert wider <= 0
