"""People in front of the admin: browser windows that watch what their pages do."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from tests.support.gateway import Gateway

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PICTURES = Path(__file__).resolve().parents[2] / "var" / "browser"
"""Of the pages of each test, as it left them: for people, and for CI to keep."""
PASSWORD = "correct horse battery staple"
ACCOUNTS = f"""
from django.contrib.auth.models import User
for name in ("anna", "bert"):
    User.objects.create_superuser(name, password={PASSWORD!r})
from proxy.models import Limit, Membership, Team
mia = User.objects.create_user("mia", password={PASSWORD!r})
Membership.objects.create(user=mia, team=Team.objects.get(name="default"))
Limit.objects.create(team=Team.objects.get(name="default"), tokens_per_day=10**9)
"""
WAIT_MILLISECONDS = 60_000
"""For a text to appear, on a machine that has other things to do."""

expect.set_options(timeout=WAIT_MILLISECONDS)


@dataclass
class Desk:
    """`complaints`: errors that pages logged, and requests to other hosts."""

    gateway: Gateway
    browser: Browser
    complaints: list[str] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    def page(self, *, width: int = 1280, height: int = 900) -> Page:
        """A window of its own, with nobody logged in."""
        context = self.browser.new_context(
            base_url=self.gateway.base_url, viewport={"width": width, "height": height}
        )
        context.set_default_timeout(WAIT_MILLISECONDS)
        page = context.new_page()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on("request", self._request)
        self.pages.append(page)
        return page

    def logged_in(self, name: str = "anna", *, width: int = 1280) -> Page:
        page = self.page(width=width)
        self.log_in(page, name)
        return page

    def log_in(self, page: Page, name: str = "anna") -> None:
        page.goto("/admin/")
        page.get_by_label("Username").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Site administration")).to_be_visible()

    def pictures(self, folder: Path) -> list[Path]:
        """One of each page that is open."""
        PICTURES.parent.mkdir(mode=0o700, exist_ok=True)  # a gateway's state may lie there
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for number, page in enumerate(self.pages):
            if not page.is_closed():
                paths.append(folder / f"{number}.png")
                page.screenshot(path=paths[-1], full_page=True)
        return paths

    def close(self) -> None:
        for page in self.pages:
            page.context.close()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"{message.location.get('url')}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.gateway.base_url, "data:")):
            self.complaints.append(f"asked another host: {request.url}")


def open_preset(page: Page, name: str) -> None:
    """As a person gets there: through the side bar and the list."""
    page.goto("/admin/")
    page.get_by_role("link", name="Presets").first.click()
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("textbox", name="Name")).to_have_value(name)


def save(page: Page) -> None:
    """And stay on the page."""
    page.get_by_role("button", name="Save and continue editing").click()
