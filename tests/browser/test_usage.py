"""Who used how much, as somebody looks it up: what the page shows is what was recorded."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.browsing import PASSWORD, Desk
from tests.support.gateway import Gateway
from tests.support.reading_colours import poor_contrasts

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROWS = """
from datetime import timedelta
from django.utils import timezone
from tests.django.usage.recorded import a_request, recorded
now = timezone.now().replace(hour=0, minute=0, second=1)
red = {"team": "painters", "team_id": 77, "key": "paintkey"}
recorded(
    *(a_request(at=now, record=f"p{n}", request_id=f"paint-{n}", read=1000 * n, cached=0,
                answered=n, preset="brush" if n % 2 else "roller", first_token=0.5, **red)
      for n in range(1, 6)),
    a_request(at=now - timedelta(days=2), record="p9", request_id="paint-9", read=7, cached=0,
              answered=0, preset="brush", status=502, code="model_died", **red),
)
"""


@pytest.fixture(scope="module")
def painted(running: Gateway) -> None:
    running.django(ROWS)


@pytest.fixture
def page(painted: None, desk: Desk) -> Page:
    page = desk.logged_in()
    page.get_by_role("link", name="Usage", exact=True).first.click()
    page.get_by_label("Team", exact=True).fill("painters")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_label("Team", exact=True)).to_have_value("painters")
    return page


def test_the_figures_of_a_team_are_those_of_its_requests(page: Page, tmp_path: Path) -> None:
    models = page.get_by_role("region", name="Tokens by model")
    brush = models.get_by_role("row", name="brush")
    expect(brush.get_by_role("cell")).to_have_text(["9,016", "60.0%", "9,007", "0", "9", "4"])
    expect(models.get_by_role("row", name="roller").get_by_role("cell").first).to_have_text("6,006")
    expect(models.get_by_role("img", name="Tokens by model")).to_be_visible()
    tiles = page.get_by_role("region", name="In all")
    expect(tiles.get_by_role("definition")).to_have_text(["6", "15,007", "0", "15", "1", "0"])
    errors = page.get_by_role("region", name="Refusals and failures by code")
    expect(errors.get_by_role("row", name="model_died")).to_be_visible()

    summary = models.get_by_text("All figures")
    summary.focus()
    page.keyboard.press("Enter")
    days = models.get_by_role("table", name="Tokens by model", exact=True).get_by_role("row")
    expect(days).to_have_count(3)
    expect(days.last.get_by_role("cell")).to_have_text(["9,009", "6,006"])

    with page.expect_download() as downloading:
        page.get_by_role("link", name="CSV of Tokens by model").click()
    downloading.value.save_as(tmp_path / "usage.csv")
    rows = list(csv.DictReader((tmp_path / "usage.csv").read_text().splitlines()))
    assert {(row["model"], row["tokens"]) for row in rows} == {
        ("brush", "7"), ("brush", "9009"), ("roller", "6006"),
    }  # fmt: skip


def test_a_request_is_looked_up_by_its_id_on_a_telephone(painted: None, desk: Desk) -> None:
    page = desk.logged_in(width=390)
    page.goto("/admin/proxy/usageday/?team=painters&period=week")
    expect(page.get_by_role("img", name="Requests", exact=True)).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

    page.get_by_role("link", name="Single requests").click()
    page.locator("#searchbar").fill("paint-4")
    page.locator("#searchbar").press("Enter")
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    expect(page.locator("#result_list").get_by_text("4,000 + 4")).to_be_visible()


def test_which_team_used_most_this_week_is_read_at_once(painted: None, desk: Desk) -> None:
    page = desk.logged_in()
    page.get_by_role("link", name="Usage", exact=True).first.click()
    page.get_by_role("link", name="7 days").focus()
    page.keyboard.press("Enter")

    teams = page.get_by_role("region", name="Tokens by team")
    expect(teams.get_by_text("Most tokens: painters, 15,0")).to_be_visible()
    assert poor_contrasts(page, "#content") == []
    page.evaluate("document.documentElement.classList.add('dark')")
    assert poor_contrasts(page, "#content") == []


def test_a_member_reads_their_own_on_a_telephone(painted: None, desk: Desk) -> None:
    page = desk.page(width=360)
    page.goto("/account/usage/")
    page.get_by_label("Username").fill("mia")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()

    expect(page.get_by_role("heading", name="Your usage")).to_be_visible()
    page.get_by_role("link", name="24 hours").click()
    expect(page.get_by_role("link", name="24 hours")).to_have_attribute("aria-current", "true")
    expect(page.get_by_text("painters")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert poor_contrasts(page, "#content") == []
