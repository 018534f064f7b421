"""The admin's path: log in, edit, apply, load, see it loaded, unload, look back, revert."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.support.browsing import Desk, open_preset, save
from tests.support.polling import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_wrong_password_opens_nothing(desk: Desk) -> None:
    page = desk.page()
    page.goto("/admin/models_registry/preset/")

    page.get_by_label("Username").fill("anna")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()

    expect(page.get_by_text("Please enter the correct username and password")).to_be_visible()


def test_an_edited_context_counts_at_the_next_load(desk: Desk) -> None:
    page = desk.logged_in()
    open_preset(page, "alpha")
    page.get_by_label("Context", exact=True).fill("1024")
    save(page)
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    expect(page.get_by_role("row", name="ctx-size 1024 preset")).to_be_visible()
    expect(page.get_by_text("--ctx-size 1024")).to_be_visible()

    page.get_by_role("button", name="Load", exact=True).click()

    expect(page.get_by_text("alpha is being loaded.")).to_be_visible()
    expect(page.get_by_role("status").get_by_text("loaded", exact=True)).to_be_visible()
    assert "--ctx-size 1024" in " ".join(desk.gateway.child_of("alpha").argv)

    page.get_by_role("button", name="Unload").click()
    expect(page.get_by_text("alpha is being unloaded.")).to_be_visible()
    expect(page.get_by_role("status").get_by_text("unloaded", exact=True)).to_be_visible()
    eventually(lambda: not desk.gateway.instance_of("alpha"), "the instance has gone")


def test_a_busy_old_version_goes_when_it_has_answered(desk: Desk) -> None:
    page = desk.logged_in()
    open_preset(page, "slow")

    with desk.gateway.client.stream("slow", max_tokens=2000) as stream:
        assert stream.next_event()
        page.get_by_label("Context", exact=True).fill("4096")
        save(page)
        expect(page.get_by_text("was changed successfully")).to_be_visible()

    # Whether the new version had room beside it or not: the old one goes when it has answered.
    eventually(
        lambda: all(not each["stale"] for each in desk.gateway.snapshot()["instances"]),
        "the old version has gone",
    )
    page.reload()
    expect(page.get_by_role("button", name="Apply now")).not_to_be_visible()


def test_an_edit_stands_in_the_history_and_can_be_taken_back(desk: Desk) -> None:
    page = desk.logged_in()
    open_preset(page, "beta")
    page.get_by_label("Context", exact=True).fill("2048")
    save(page)
    page.get_by_label("Slots", exact=True).fill("2")
    save(page)

    page.get_by_role("link", name=re.compile("History$")).click()
    expect(page.get_by_role("row").filter(has_text="slots: unset → 2")).to_contain_text("anna")
    page.get_by_role("row").filter(has_text="context: unset → 2048").get_by_role("link").click()
    expect(page.get_by_role("row", name="slots 2 unset")).to_be_visible()
    page.get_by_role("button", name="Revert to this version").click()

    expect(page.get_by_text("beta is as it was then")).to_be_visible()
    expect(page.get_by_label("Slots", exact=True)).to_have_value("")
    expect(page.get_by_label("Context", exact=True)).to_have_value("2048")


def test_a_deleted_preset_can_be_brought_back(desk: Desk) -> None:
    page = desk.logged_in()
    open_preset(page, "gamma")
    page.get_by_role("link", name="Delete preset").click()
    page.get_by_role("button", name=re.compile("Yes, I.m sure")).click()
    expect(page.get_by_text("was deleted successfully")).to_be_visible()

    page.get_by_role("link", name="Deleted", exact=True).click()
    page.get_by_role("link", name="gamma").click()
    page.get_by_role("button", name="Bring it back").click()

    expect(page.get_by_text("gamma is back")).to_be_visible()
    expect(page.get_by_role("textbox", name="Name")).to_have_value("gamma")


def test_presets_are_pinned_and_unpinned_from_the_list_and_the_page(desk: Desk) -> None:
    page = desk.logged_in()
    page.goto("/admin/models_registry/preset/")
    row = page.get_by_role("row").filter(has_text="alpha.gguf")
    row.get_by_role("checkbox").check()
    page.get_by_label("Select action to run").select_option("Pin the selected presets")
    page.get_by_role("button", name="Run").click()

    expect(page.get_by_text("alpha is pinned")).to_be_visible()
    expect(row.get_by_text("pinned", exact=True)).to_be_visible()

    open_preset(page, "alpha")
    page.get_by_role("button", name="Unpin").click()
    expect(page.get_by_text("alpha is unpinned")).to_be_visible()
    expect(page.get_by_role("status").get_by_text("pinned", exact=True)).not_to_be_visible()
