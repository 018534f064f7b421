"""One gateway and one headless chromium for the folder; each test opens pages of its own.

Playwright keeps an event loop running in the thread of the test: what needs Django's ORM goes to
the gateway's own shell, and both end with the folder, before tests with loops of their own run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.browsing import ACCOUNTS, CHROMIUM, OPTIONS, PICTURES, Desk
from tests.support.gateway import SLOW, THREE_MODELS, Gateway, gateway
from tests.support.hub import Hub, downloads_from, hub


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test leaves a picture of each of its pages; and if it fails, what the gateway said."""
    report = yield
    desk = getattr(item, "funcargs", {}).get("desk")
    if not isinstance(desk, Desk) or report.when == "teardown":  # then they are closed
        return report
    if report.failed or report.when == "call":
        pictures = desk.pictures(PICTURES / re.sub(r"[^\w.-]+", "-", item.name))
        if report.failed:
            report.sections.append(("pages", "\n".join(map(str, pictures))))
            report.sections.append(("gateway", "\n".join(desk.gateway.output[-60:])))
    return report


@pytest.fixture(scope="package")
def published() -> Iterator[Hub]:
    """Where the gateway downloads from."""
    with hub() as serving:
        yield serving


@pytest.fixture(scope="package")
def running(published: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    models = {**THREE_MODELS, "slow": SLOW}
    folder = tmp_path_factory.mktemp("browser")
    env = downloads_from(published, folder)
    with gateway(folder, models=models, env=env) as started:
        started.django(ACCOUNTS)
        yield started


@pytest.fixture(scope="package")
def chromium(running: Gateway) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def desk(running: Gateway, chromium: Browser) -> Iterator[Desk]:
    """Someone's screen. No page may log an error or ask another host, whatever the test is of."""
    opened = Desk(running, chromium)
    yield opened
    opened.close()
    assert opened.complaints == []
