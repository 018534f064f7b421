"""What an operator asks of the screen, answered by looking and clicking from the live page on; and
each answer held against what the gateway itself says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.asking import CHAT, chat_body
from tests.support.browsing import Desk
from tests.support.gateway import Gateway
from tests.support.managing import Manager
from tests.support.polling import eventually

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LIVE = "Live: what changes is shown at once."
HOUSE = """
from models_registry.models import Group, Preset
from proxy.models import ApiKey, Team
group = Group.objects.create(name="one of these", one_at_a_time=True)
Preset.objects.filter(name__in=("slow", "beta")).update(group=group)
like = Preset.objects.get(name="gamma").model_file
options = "override-kv = llama.block_count=int:99"
Preset.objects.create(name="unfit", model_file=like, extra_options=options)
from datetime import timedelta
from django.utils import timezone
from tests.django.usage.recorded import a_request, recorded
three_days_ago = timezone.now() - timedelta(days=3)
recorded(
    *(a_request(at=three_days_ago, record=f"stone{n}", request_id=f"stone-{n}", read=400,
                cached=0, answered=n, preset="alpha", team="masons", team_id=88, key="stonekey")
      for n in range(3)),
    a_request(at=three_days_ago - timedelta(days=9), record="old", request_id="old", preset="alpha",
              read=900, cached=0, answered=0, team="retired", team_id=89, key="oldkey"),
)
"""
AS_BEFORE = """
from models_registry.models import Group, Preset
Group.objects.get(name="one of these").delete()
Preset.objects.get(name="unfit").delete()
"""


@pytest.fixture(scope="module")
def house(running: Gateway) -> Iterator[Gateway]:
    """`slow` and `beta` one at a time, `unfit` cannot load, and the masons have been busy."""
    running.unload_all()
    running.django(HOUSE)
    yield running
    running.unload_all()
    running.django(AS_BEFORE)


@pytest.fixture
def page(house: Gateway, desk: Desk) -> Page:
    page = desk.logged_in()
    page.get_by_role("link", name="Live").first.click()
    expect(page.get_by_text(LIVE)).to_be_visible()
    return page


def items(gateway: Gateway, path: str) -> list[dict[str, Any]]:
    """As the management API tells them."""
    answer = Manager(gateway)("GET", path)
    assert answer.status == 200, answer.body
    return list(answer.json["items"])


def ask(gateway: Gateway, model: str) -> None:
    answer = gateway.client.request("POST", CHAT, chat_body(model, max_tokens=1))
    assert answer.status == 200, answer.body


def test_which_model_uses_most_memory_on_a_device(house: Gateway, page: Page) -> None:
    for model in ("alpha", "slow", "gamma"):
        house.control("load", preset=model, wait=True)
    most = max(Manager(house).device()["instances"], key=lambda each: each["held"])

    first = page.get_by_role("table", name="Memory of Host").get_by_role("row").nth(1)

    expect(first).to_contain_text(f"{most['preset']} ({most['instance']})")
    expect(first).to_contain_text(f"{most['held'] / 2**20:,.0f} MiB")


def test_why_was_a_model_evicted_at_that_time(house: Gateway, page: Page) -> None:
    ask(house, "slow")
    ask(house, "beta")
    eventually(lambda: not house.instance_of("slow"), "slow has gone")

    newest = page.get_by_role("list", name="In words, the newest first")
    newest.get_by_role("link", name="slow was evicted for beta").first.click()

    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("slow was evicted for beta")
    decisions = items(house, "/record/decisions?preset=slow&limit=50")
    evicted = next(each for each in decisions if each["kind"] == "ask_exit")
    expect(dialog).to_contain_text(evicted["at"][:10])
    expect(dialog.get_by_role("row", name="Had been idle for")).to_be_visible()


def test_how_long_the_next_request_will_wait(house: Gateway, page: Page) -> None:
    ask(house, "beta")
    page.get_by_role("link", name="Presets", exact=True).click()
    page.get_by_role("link", name="Open slow", exact=True).click()

    coming = page.get_by_role("region", name="The next request")
    expect(coming).to_contain_text("beta would make way")
    said = house.control("waiters", preset="slow", limit=1)["next"]
    assert said["makes_way"] == ["beta"]
    seconds = int(said["seconds"])
    expect(coming).to_contain_text(f"about {seconds} sec" if seconds else "less than 1 sec")


def test_which_team_used_most_tokens_this_week(house: Gateway, page: Page) -> None:
    page.get_by_role("link", name="Usage", exact=True).click()
    page.get_by_role("link", name="7 days").click()

    teams = page.get_by_role("region", name="Tokens by team")
    since = (datetime.now(UTC) - timedelta(days=7)).strftime("%Y-%m-%dT%H:00:00Z")
    most, *_others = items(house, f"/usage/totals?by=team&since={since}")
    expect(teams).to_contain_text(f"Most tokens: {most['name']}, {most['tokens']:,}")


def test_why_a_model_failed_to_load(house: Gateway, page: Page) -> None:
    page.get_by_label("Model", exact=True).fill("unfit")
    page.keyboard.press("Enter")
    page.get_by_role("group", name="unfit").get_by_role("link", name="unfit", exact=True).click()

    failed = page.get_by_role("region", name="Its last load failed")
    expect(failed).to_contain_text("error loading model")
    coming = page.get_by_role("region", name="The next request")
    expect(coming).to_contain_text("The last load has failed, and would be tried again.")
