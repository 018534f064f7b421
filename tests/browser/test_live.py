"""The live page in use: load by its button, see who waits and why, see what was evicted and why."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.support.asking import CHAT, chat_body
from tests.support.browsing import Desk
from tests.support.gateway import Gateway
from tests.support.reading_colours import poor_contrasts

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SPOKEN_TO = """
window.WebSocket = class extends EventTarget {
    constructor() {
        super();
        window.heard = this;
        window.tries = (window.tries ?? 0) + 1;
        setTimeout(() => this.dispatchEvent(new Event(window.refused ? "close" : "open")));
    }
    close() {}
};
"""
"""A fake, for as many events as one likes, and for a server that lets nobody in."""
TEN_THOUSAND_EVENTS = """
for (let number = 0; number < 10000; number += 1) {
    const told = { id: `x.${number}`, event: "status_change", model: "alpha", data: { status: "loaded" } };
    heard.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(told) }));
}
"""  # noqa: E501
SIZE = "document.querySelectorAll('*').length"
LIVE = "Live: what changes is shown at once."
APART = """
from models_registry.models import Group, Preset
group = Group.objects.create(name="taking turns", one_at_a_time=True)
for preset in Preset.objects.filter(name__in=("slow", "beta")):
    preset.group = group
    preset.save()
"""
TOGETHER = """
from models_registry.models import Group
Group.objects.get(name="taking turns").delete()
"""


@pytest.fixture(scope="module")
def taking_turns(running: Gateway) -> Iterator[None]:
    """Only one of `slow` and `beta` at a time."""
    running.unload_all()
    running.django(APART)
    yield
    running.unload_all()
    running.django(TOGETHER)


@contextmanager
def asking(gateway: Gateway, model: str, request: str) -> Iterator[None]:
    """Somebody who waits for an answer, for as long as the block lasts and until it is there."""
    answers: list[Any] = []

    def ask() -> None:
        headers = {"x-request-id": request}
        body = chat_body(model, max_tokens=1)
        answers.append(gateway.client.request("POST", CHAT, body, headers=headers))

    thread = threading.Thread(target=ask, name=request)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)
    assert [answer.status for answer in answers] == [200]


def opened(desk: Desk, *, width: int = 1280) -> Page:
    page = desk.logged_in(width=width)
    page.goto("/admin/live/")
    expect(page.get_by_text(LIVE)).to_be_visible()
    return page


def test_from_a_button_to_an_eviction_and_its_reason(taking_turns: None, desk: Desk) -> None:
    page = desk.logged_in()
    page.get_by_role("link", name="Live").first.click()
    expect(page.get_by_text(LIVE)).to_be_visible()

    page.get_by_label("Model", exact=True).fill("slow")
    page.keyboard.press("Enter")
    expect(page.get_by_text("slow is being loaded.")).to_be_visible()
    card = page.get_by_role("article", name="slow")
    expect(card.get_by_text("loaded", exact=True)).to_be_visible()
    expect(page.get_by_role("table", name="Memory of Host")).to_contain_text("slow (")

    with ExitStack() as waiting, desk.gateway.client.stream("slow", max_tokens=2000) as stream:
        assert stream.next_event()
        waiting.enter_context(asking(desk.gateway, "beta", "who-waits-1"))
        expect(card.get_by_text("1 of ")).to_be_visible()
        row = page.get_by_role("row", name="beta").filter(has_text="who-waits-1")
        expect(row).to_contain_text("all that could make way are answering; slow makes way")
        waiter = row.get_by_role("link", name="who-waits-1")
        waiter.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_contain_text("Its model is the next to be loaded")
        page.keyboard.press("Escape")
        expect(waiter).to_be_focused()
    expect(page.get_by_role("article", name="beta")).to_be_visible()
    expect(card).not_to_be_visible()

    lane = page.get_by_role("group", name="slow")
    lane.get_by_role("link", name="eviction: slow was evicted for beta").focus()
    expect(page.locator("#live-tip")).to_contain_text("slow was evicted for beta")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Eviction: slow")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name="Had been idle for")).to_be_visible()
    page.keyboard.press("Escape")

    newest = page.get_by_role("list", name="In words, the newest first")
    expect(newest).to_contain_text("slow was evicted for beta")
    expect(page.get_by_role("article", name="beta").get_by_text("0 of ")).to_be_visible()
    lane.get_by_role("link", name="slow", exact=True).click()
    coming = page.get_by_role("region", name="The next request")
    expect(coming).to_contain_text("A request that came now would wait")
    expect(coming).to_contain_text("beta would make way")


def test_a_lost_connection_is_told_and_comes_back(desk: Desk) -> None:
    page = desk.page()
    sockets: list[WebSocketRoute] = []

    def carry(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    page.route_web_socket("**/models/ws**", carry)
    desk.log_in(page)
    page.goto("/admin/live/")
    expect(page.get_by_text(LIVE)).to_be_visible()

    sockets[0].close()

    expect(page.get_by_text("Not connected: the figures are from")).to_be_visible()
    expect(page.get_by_text(LIVE)).to_be_visible()
    assert len(sockets) == 2


def test_a_stream_that_ends_with_its_session_is_not_tried_again(desk: Desk) -> None:
    page = desk.page()
    page.add_init_script(SPOKEN_TO)
    desk.log_in(page)
    page.goto("/admin/live/")
    expect(page.get_by_text(LIVE)).to_be_visible()
    page.context.clear_cookies(name="sessionid")

    page.evaluate("window.refused = true; heard.dispatchEvent(new Event('close'))")

    ended = "Not connected: you are not logged in any more. Open the page again."
    expect(page.get_by_text(ended)).to_be_visible()
    tries = page.evaluate("tries")
    page.wait_for_timeout(4000)  # what was lost is tried again after one second, two, four
    assert page.evaluate("tries") == tries
    page.close()
    desk.complaints[:] = [each for each in desk.complaints if "403" not in each]


def test_a_button_without_a_session_says_so(desk: Desk) -> None:
    page = opened(desk)
    page.context.clear_cookies(name="sessionid")

    page.get_by_label("Model", exact=True).fill("alpha")
    page.keyboard.press("Enter")

    told = page.locator("#live-told")
    expect(told).to_contain_text("you are not logged in any more")
    page.close()
    desk.complaints[:] = [each for each in desk.complaints if "403" not in each]


def test_a_pin_is_shown_without_a_reload_and_the_focus_stays(
    taking_turns: None, desk: Desk
) -> None:
    desk.gateway.control("load", preset="alpha", wait=True)
    page = opened(desk)
    card = page.get_by_role("article", name="alpha")

    card.get_by_role("button", name="Unload").focus()
    other = opened(desk)
    other.get_by_role("article", name="alpha").get_by_role("button", name="Pin").click()

    expect(other.get_by_text("alpha is pinned")).to_be_visible()
    expect(card.get_by_text("pinned", exact=True)).to_be_visible()
    expect(card.get_by_role("button", name="Unload")).to_be_focused()
    card.get_by_role("button", name="Unpin").click()
    expect(
        other.get_by_role("article", name="alpha").get_by_role("button", name="Pin")
    ).to_be_visible()
    page.get_by_role("article", name="alpha").get_by_role("button", name="Unload").click()
    expect(card).not_to_be_visible()


def test_ten_thousand_events_leave_the_page_as_large_as_it_was(desk: Desk) -> None:
    page = desk.page()
    page.add_init_script(SPOKEN_TO)
    desk.log_in(page)
    page.goto("/admin/live/")
    expect(page.get_by_text(LIVE)).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    size = page.evaluate(SIZE)

    with page.expect_response("**/admin/live/parts/**past=1"):
        page.evaluate(TEN_THOUSAND_EVENTS)

    assert page.evaluate(SIZE) == size
    assert len(asked) < 10


def test_on_a_telephone_and_in_the_dark_it_can_be_read(taking_turns: None, desk: Desk) -> None:
    desk.gateway.control("load", preset="alpha", wait=True)
    page = opened(desk, width=360)
    expect(page.get_by_role("article", name="alpha")).to_be_visible()

    sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(sideways) == 0
    assert poor_contrasts(page, "#corral-live") == []
    page.evaluate("document.documentElement.classList.add('dark')")
    assert poor_contrasts(page, "#corral-live") == []
