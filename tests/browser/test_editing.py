"""What stands in the way of an edit, and how it is told."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.support.browsing import Desk, open_preset, save

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_second_of_two_editors_is_told_and_loses_nothing(desk: Desk) -> None:
    anna, bert = desk.logged_in("anna"), desk.logged_in("bert")
    open_preset(anna, "gamma")
    open_preset(bert, "gamma")
    anna.get_by_label("Context", exact=True).fill("3072")
    save(anna)
    expect(anna.get_by_text("was changed successfully")).to_be_visible()

    bert.get_by_label("Slots", exact=True).fill("3")
    save(bert)

    expect(bert.get_by_text("anna changed context from unset to 3072")).to_be_visible()
    expect(bert.get_by_label("Slots", exact=True)).to_have_value("3")
    expect(bert.get_by_label("Context", exact=True)).to_have_value("3072")
    save(bert)
    expect(bert.get_by_text("was changed successfully")).to_be_visible()
    anna.reload()
    expect(anna.get_by_label("Slots", exact=True)).to_have_value("3")
    expect(anna.get_by_label("Context", exact=True)).to_have_value("3072")


def test_what_the_engine_would_refuse_is_refused_at_its_field(desk: Desk) -> None:
    page = desk.logged_in()
    open_preset(page, "beta")

    page.get_by_label("K cache type").fill("q9_9")
    page.get_by_label("Extra options").fill("host = 0.0.0.0")
    save(page)

    expect(page.get_by_text("Please correct the errors below.")).to_be_visible()
    refused = page.locator("#id_cache_type_k_error")
    expect(refused.get_by_text("cache-type-k: takes one of")).to_be_visible()
    expect(page.get_by_text("it would let the child listen elsewhere").first).to_be_visible()
    expect(page.get_by_label("K cache type")).to_have_value("q9_9")


def test_what_serves_command_line_fixes_is_locked_with_the_reason(desk: Desk) -> None:
    page = desk.logged_in()

    open_preset(page, "beta")

    expect(page.get_by_label("Threads")).to_be_disabled()
    expect(page.get_by_text("Serve's command line says threads = 1")).to_be_visible()
    expect(page.get_by_role("row", name="threads 1 serve's command line locked")).to_be_visible()


def test_a_preset_can_be_edited_and_loaded_on_a_telephone(desk: Desk) -> None:
    page = desk.logged_in(width=390)
    page.goto("/admin/models_registry/preset/")
    page.get_by_role("link", name="beta", exact=True).click()

    page.get_by_label("Batch size", exact=True).fill("256")
    save(page)
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    page.get_by_role("button", name="Load", exact=True).click()
    expect(page.get_by_role("status").get_by_text("loaded", exact=True)).to_be_visible()
    wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    page.get_by_role("button", name="Unload").click()

    expect(page.get_by_text("beta is being unloaded.")).to_be_visible()
    assert wider <= 0


def test_a_presets_policy_can_be_edited_on_a_telephone(desk: Desk) -> None:
    page = desk.logged_in(width=390)
    open_preset(page, "beta")
    wait, stay = page.get_by_label("Max wait"), page.get_by_label("Min residency")
    expect(wait).to_have_attribute("placeholder", "unset: 30 (gateway)")

    page.get_by_label("Priority").select_option("high")
    stay.fill("20")
    wait.fill("10")
    save(page)
    refused = page.locator("#id_min_residency_error")
    expect(refused.get_by_text("20 is more than max wait, 10: lower it")).to_be_visible()
    wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    stay.fill("10")
    page.get_by_label("Keep alive").fill("-1")
    save(page)

    expect(page.get_by_text("was changed successfully")).to_be_visible()
    expect(page.get_by_label("Priority")).to_have_value("high")
    expect(stay).to_have_value("10.0")
    expect(page.get_by_label("Keep alive")).to_have_value("-1.0")
    assert wider <= 0


def test_nothing_is_cut_off_on_a_telephone(desk: Desk) -> None:
    page = desk.logged_in(width=390)
    open_preset(page, "alpha")
    here = page.url.removesuffix("change/")
    cut = """[...document.querySelectorAll(".field-file, .corral-scroll")].filter(
        each => each.scrollHeight > each.clientHeight || each.scrollWidth > each.clientWidth
    ).map(each => each.outerHTML)"""

    for address in ("/admin/models_registry/preset/", f"{here}change/", f"{here}history/"):
        page.goto(address)
        expect(page.locator(".field-file, .corral-scroll").first).to_be_visible()
        assert page.evaluate(cut) == [], address


def test_a_new_key_is_shown_once(desk: Desk) -> None:
    page = desk.logged_in()
    page.goto("/admin/proxy/apikey/add/")
    page.locator("#id_team").select_option("default")
    page.get_by_label("Name").fill("telephone")
    save(page)

    expect(page.get_by_text("shown only this once: ck_")).to_be_visible()
    page.reload()
    expect(page.get_by_text("shown only this once")).to_have_count(0)


def test_every_page_opens(desk: Desk) -> None:
    page = desk.logged_in()
    links = page.get_by_role("navigation").get_by_role("link").all()
    paths = {link.get_attribute("href") for link in links}

    for path in sorted(path for path in paths if path and path.startswith("/admin/")):
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path

    assert len(paths) >= 10
