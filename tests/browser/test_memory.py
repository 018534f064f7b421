"""What would fit while a preset is being edited, and what devices hold."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.support.browsing import Desk, open_preset

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_an_edit_is_asked_about_and_what_runs_is_on_the_page_of_devices(desk: Desk) -> None:
    page = desk.logged_in()
    open_preset(page, "gamma")
    fit = page.locator("#corral-fit")
    expect(fit.get_by_role("row", name="On an empty machine on the host")).to_be_visible()

    page.get_by_label("Context", exact=True).fill("768")
    page.get_by_role("button", name="What would fit as edited").click()
    expect(fit.get_by_role("row", name="On an empty machine").get_by_text("768")).to_be_visible()
    page.get_by_label("Context", exact=True).fill("-1")
    page.get_by_role("button", name="What would fit as edited").click()
    expect(fit.get_by_text("Correct the form first:")).to_be_visible()

    page.reload()
    expect(page.get_by_label("Context", exact=True)).not_to_have_value("768")
    page.get_by_role("button", name="Load", exact=True).click()
    expect(page.get_by_role("status").get_by_text("loaded", exact=True)).to_be_visible()
    page.get_by_role("link", name="Devices").first.click()
    expect(page.get_by_role("row", name="gamma (").get_by_text("Host")).to_be_visible()
    page.get_by_role("link", name="Limits of Host").click()
    expect(page.get_by_role("textbox", name="Device")).to_have_value("Host")
