"""What would fit while a preset is being edited, and what devices hold."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.browsing import Desk, open_preset
from tests.support.gateway import Gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TRIED = """
from models_registry.models import Preset
like = Preset.objects.get(name="gamma").model_file
Preset.objects.create(name="to-try", model_file=like)
"""
GONE = """
from models_registry.models import Preset
Preset.objects.get(name="to-try").delete()
"""
AS_IT_STANDS = "For the form as it stands; nothing of it is saved."


@pytest.fixture(scope="module", autouse=True)
def nobody_elses(running: Gateway) -> Iterator[None]:
    """A preset that no other test has edited."""
    running.django(TRIED)
    yield
    running.django(GONE)


def test_an_edit_is_asked_about_and_what_runs_is_on_the_page_of_devices(desk: Desk) -> None:
    page = desk.logged_in()
    open_preset(page, "gamma")
    fit = page.locator("#corral-fit")
    expect(fit.get_by_role("row", name="On an empty machine on the host")).to_be_visible()

    page.get_by_label("Context", exact=True).fill("768")
    expect(fit.get_by_role("row", name="On an empty machine").get_by_text("768")).to_be_visible()
    page.get_by_label("Context", exact=True).fill("-1")
    expect(fit.get_by_text("Correct the form first:")).to_be_visible()
    expect(page.locator("[data-live-fault]")).to_contain_text("greater than or equal to 0")

    page.reload()
    expect(page.get_by_label("Context", exact=True)).not_to_have_value("768")
    page.get_by_role("button", name="Load", exact=True).click()
    expect(page.get_by_role("status").get_by_text("loaded", exact=True)).to_be_visible()
    page.get_by_role("link", name="Devices").first.click()
    expect(page.get_by_role("row", name="gamma (").get_by_text("Host")).to_be_visible()
    page.get_by_role("link", name="Limits of Host").click()
    expect(page.get_by_role("textbox", name="Device")).to_have_value("Host")


def test_the_slider_shows_memory_at_once_and_writes_the_context(desk: Desk) -> None:
    page = desk.logged_in()
    open_preset(page, "to-try")
    expect(page.get_by_text(AS_IT_STANDS)).to_be_visible()
    slider = page.get_by_label("Context against memory")
    field = page.get_by_label("Context", exact=True)

    slider.focus()
    page.keyboard.press("Home")

    expect(page.locator("[data-said]")).to_contain_text("512 tokens")
    expect(page.locator("[data-said]")).to_contain_text("fits now")
    expect(field).to_have_value("512")
    fit = page.locator("#corral-fit")
    expect(fit.get_by_role("row", name="On an empty machine").get_by_text("512")).to_be_visible()
    expect(slider).to_be_focused()
    asked = asked_of(page)
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    expect(field).not_to_have_value("512")
    with page.expect_response("**/fit/"):
        pass
    assert len(asked) < 4
    page.reload()
    expect(field).to_have_value("")


def asked_of(page: Page) -> list[str]:
    """Questions of what would fit, from now on."""
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if one.url.endswith("/fit/") else None)
    return asked


def test_an_edited_preset_is_tried_and_nothing_is_left_of_it(desk: Desk) -> None:
    page = desk.logged_in()
    open_preset(page, "to-try")
    page.get_by_label("Context", exact=True).fill("768")
    trial = page.get_by_role("region", name="Try it")

    trial.get_by_role("button", name="Try it").click()

    expect(trial.get_by_text("It works: it was loaded, has answered")).to_be_visible()
    expect(trial.get_by_role("row", name="Load")).to_be_visible()
    expect(trial.get_by_role("row", name="Memory on Host")).to_contain_text("measured")
    expect(trial.get_by_role("row", name="Answer, of 16 tokens")).to_contain_text("tokens/s")
    eventually(lambda: not tried(desk), "the trial has gone")
    page.get_by_label("Extra options").fill("host = 0.0.0.0")
    trial.get_by_role("button", name="Try it").click()
    expect(trial.get_by_role("status")).to_contain_text("Correct the form first")
    page.reload()
    expect(page.get_by_label("Context", exact=True)).to_have_value("")


def test_a_trial_that_is_left_ends_by_itself(desk: Desk) -> None:
    page = desk.logged_in()
    open_preset(page, "slow")
    trial = page.get_by_role("region", name="Try it")
    trial.get_by_role("button", name="Try it").click()
    eventually(lambda: tried(desk), "the trial is loading")

    page.close()

    eventually(lambda: not tried(desk), "the trial has gone")


def tried(desk: Desk) -> list[str]:
    return [
        each["preset"]
        for each in desk.gateway.snapshot()["instances"]
        if each["preset"].endswith("~try")
    ]
