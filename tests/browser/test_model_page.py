"""A model's page in use: why it failed to load, what its loads took, and its log, searched and
followed while it is printed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.browsing import Desk
from tests.support.gateway import Gateway
from tests.support.reading_colours import poor_contrasts

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LIVE = "Live: what changes is shown at once."
FOLLOWED = "Followed: what is printed is shown at once."
BROKEN = """
from models_registry.models import Preset
like = Preset.objects.get(name="gamma").model_file
options = "override-kv = llama.block_count=int:99"
Preset.objects.create(name="broken", model_file=like, extra_options=options)
"""
SPOKEN_TO = """
window.WebSocket = class extends EventTarget {
    constructor(url) {
        super();
        if (url.includes("/log/")) window.log = this; else window.heard = this;
        setTimeout(() => this.dispatchEvent(new Event("open")));
    }
    close() {}
};
"""
TEN_THOUSAND_EVENTS = """
for (let number = 0; number < 10000; number += 1) {
    const told = { id: `x.${number}`, event: "status_change", model: MODEL, data: { status: "loaded" } };
    heard.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(told) }));
}
"""  # noqa: E501
TEN_THOUSAND_LINES = """
for (let number = 0; number < 10000; number += 1) {
    const pieces = [{ run: "r", at: "then", lines: `line ${number}\\n` }];
    log.dispatchEvent(new MessageEvent("message", { data: JSON.stringify({ first: !number, pieces }) }));
}
"""  # noqa: E501
SIZE = "document.querySelectorAll('*').length"
SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
    for (const each of list.getEntries()) if (!each.hadRecentInput) shifts.push(each.value);
}).observe({ type: "layout-shift", buffered: true });
"""


def opened(desk: Desk, model: str, *, width: int = 1280) -> Page:
    """By the list of presets, as a person gets there."""
    page = desk.logged_in(width=width)
    page.goto(f"/admin/models_registry/preset/?q={model}")
    page.get_by_role("link", name=f"Open {model}", exact=True).click()
    expect(page.get_by_text(LIVE)).to_be_visible()
    return page


@pytest.fixture(scope="module")
def broken(running: Gateway) -> None:
    """A preset whose load fails."""
    running.django(BROKEN)


def test_why_a_model_failed_to_load_is_told_with_its_log(broken: None, desk: Desk) -> None:
    page = opened(desk, "broken")
    page.get_by_role("button", name="Load broken").click()

    failed = page.get_by_role("region", name="Its last load failed")
    expect(failed).to_contain_text("it ended before it was ready")
    row = page.get_by_role("table", name="Loads, the newest first").get_by_role("row").nth(1)
    expect(row).to_contain_text("not loaded")
    expect(row).to_contain_text("a request asked for it")

    failed.get_by_role("link", name="Its whole log").focus()
    page.keyboard.press("Enter")
    lines = page.get_by_role("log")
    expect(lines).to_be_focused()
    expect(lines).to_contain_text("error")
    expect(page.get_by_label("Run", exact=True)).not_to_have_value("")

    page.get_by_label("Only lines with").fill("BLOCK_COUNT")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Lines with “BLOCK_COUNT”")).to_be_visible()
    expect(lines).to_contain_text(re.compile(r"\d+: .*block_count"))


def test_a_load_is_seen_as_it_goes_and_its_log_as_it_is_printed(
    running: Gateway, desk: Desk
) -> None:
    running.unload_all()
    page = opened(desk, "gamma")
    expect(page.get_by_text(FOLLOWED)).to_be_visible()

    page.get_by_role("button", name="Load gamma").click()

    card = page.get_by_role("article", name="gamma")
    expect(card.get_by_text("loaded", exact=True)).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("llama")
    expect(page.get_by_role("region", name="Command line of what runs")).to_contain_text("gamma")
    memory = page.get_by_role("region", name="Memory: predicted and reported")
    expect(memory.get_by_role("row", name="Host").first).to_contain_text("MiB")
    loads = page.get_by_role("region", name="Loads")
    expect(loads.get_by_role("img", name="How long its loads took")).to_be_visible()
    expect(loads.get_by_role("row").nth(1)).to_contain_text("running")
    expect(loads.get_by_role("row").nth(1)).to_contain_text("warm, 100%")

    loads.get_by_role("link", name="Figures").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("of gamma")
    page.keyboard.press("Escape")
    card.get_by_role("button", name="Unload").click()
    expect(card).not_to_be_visible()
    expect(loads.get_by_role("row").nth(1)).to_contain_text("a person unloaded it")
    expect(page.get_by_role("region", name="The model", exact=True)).to_contain_text("llama")
    options = page.get_by_role("table", name="Effective options")
    expect(options.get_by_role("row").nth(1)).to_be_visible()


def test_ten_thousand_events_and_lines_leave_it_as_large_as_it_was(desk: Desk) -> None:
    page = desk.page()
    page.add_init_script(SPOKEN_TO)
    page.add_init_script(SHIFTS)
    desk.log_in(page)
    page.goto("/admin/models_registry/preset/?q=gamma")
    with page.expect_response("**/parts/**past=1"):
        page.get_by_role("link", name="Open gamma", exact=True).click()
    expect(page.get_by_text(LIVE)).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    size = page.evaluate(SIZE)
    page.evaluate("shifts.length = 0")

    with page.expect_response("**/parts/**past=0"):  # what its next request waits for may be others
        page.evaluate(TEN_THOUSAND_EVENTS.replace("MODEL", '"another"'))
    with page.expect_response("**/parts/**past=1"):
        page.evaluate(TEN_THOUSAND_EVENTS.replace("MODEL", '"gamma"'))
    assert page.evaluate(SIZE) == size
    assert len(asked) < 10

    page.evaluate(TEN_THOUSAND_LINES)
    expect(page.get_by_role("log")).to_contain_text("line 9999")
    expect(page.get_by_role("log")).not_to_contain_text("line 7999\n")
    assert page.evaluate(SIZE) < size + 2 * 2000 + 10
    assert page.evaluate("shifts") == []


def test_a_search_that_nobody_answers_says_so(desk: Desk) -> None:
    page = opened(desk, "gamma")
    expect(page.get_by_text(FOLLOWED)).to_be_visible()
    page.context.set_offline(True)
    complained = len(desk.complaints)

    page.get_by_label("Only lines with").fill("anything")
    page.keyboard.press("Enter")

    expect(page.get_by_text("Nobody answered: the button did nothing.").first).to_be_visible()
    page.context.set_offline(False)
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("Lines with “anything”")).to_be_visible()
    del desk.complaints[complained:]  # the browser's own words for it


def test_on_a_telephone_and_in_the_dark_it_can_be_read(broken: None, desk: Desk) -> None:
    page = opened(desk, "broken", width=360)
    expect(page.get_by_role("region", name="Its last load failed")).to_be_visible()

    sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(sideways) == 0
    assert poor_contrasts(page, "#corral-live") == []
    page.evaluate("document.documentElement.classList.add('dark')")
    assert poor_contrasts(page, "#corral-live") == []
