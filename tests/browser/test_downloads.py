"""A download in the admin, from the form to the model, with a bar that moves by itself."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.support.browsing import Desk
from tests.support.hub import Hub

pytestmark = [pytest.mark.slow, pytest.mark.browser]


def test_a_download_is_asked_for_watched_paused_and_comes(desk: Desk, published: Hub) -> None:
    published.repository("team/seen", {"seen-Q8_0.gguf": b"GGUF" + bytes(4 << 20)})
    published.bytes_per_second = 200_000
    page = desk.logged_in()
    page.goto("/admin/models_registry/download/add/")
    page.get_by_label("Target").fill("team/seen")
    page.get_by_role("button", name="Save", exact=True).click()

    bar = page.locator("progress")
    expect(bar).to_be_visible()
    expect(page.get_by_text(re.compile(r"/s, .* left"))).to_be_visible()
    first = float(bar.get_attribute("value") or 0)
    page.wait_for_function("v => +document.querySelector('progress').value > v", arg=first)
    page.get_by_role("link", name="team/seen").first.click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("paused", exact=True)).to_be_visible()

    published.bytes_per_second = 0
    page.reload()
    page.get_by_role("button", name="Resume or retry").click()
    expect(page.get_by_text("done", exact=True)).to_be_visible()
    page.goto("/admin/models_registry/preset/")
    expect(page.get_by_role("link", name="team/seen:Q8_0").first).to_be_visible()
