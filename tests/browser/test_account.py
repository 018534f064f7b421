"""Somebody who is no staff manages their own keys."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.support.browsing import PASSWORD, Desk

pytestmark = [pytest.mark.browser, pytest.mark.slow]

KEY = re.compile(r"ck_[a-z2-7]{8}_[A-Za-z0-9_-]{43}")


def test_a_member_makes_a_key_uses_it_rotates_it_and_revokes_it(desk: Desk) -> None:
    page = desk.page(width=390)
    page.goto("/account/")
    page.get_by_label("Username").fill("mia")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Your keys")).to_be_visible()

    left = page.get_by_role("region", name="What is left of limits")
    expect(left.get_by_text("tokens a day")).to_be_visible()
    expect(left.get_by_text("1000000000").first).to_be_visible()
    page.get_by_label("Name").fill("telephone")
    page.get_by_role("button", name="Make the key").click()
    expect(page.get_by_role("heading", name="The new key telephone")).to_be_visible()
    key = page.locator("#corral-key").inner_text()
    assert KEY.fullmatch(key)
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")

    page.get_by_role("button", name="Rotate").click()
    expect(page.locator("#corral-key")).not_to_have_text(key)
    expect(page.get_by_text(f"replaces ck_{key[3:11]}_")).to_be_visible()
    page.goto("/account/")
    expect(page.locator("#corral-key")).to_have_count(0)
    page.get_by_role("button", name="Revoke").first.click()
    expect(page.get_by_text("revoked", exact=True)).to_be_visible()
    assert wider <= 0
