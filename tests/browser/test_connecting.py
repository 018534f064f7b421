"""From nothing to a first answer: the steps, whose ticks change by themselves."""

from __future__ import annotations

import subprocess

import pytest
from playwright.sync_api import expect

from tests.support.browsing import PASSWORD, Desk
from tests.support.reading_colours import poor_contrasts

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NOA = f"""
from django.contrib.auth.models import User
from proxy.models import Membership, Team
noa = User.objects.create_user("noa", password={PASSWORD!r})
Membership.objects.create(user=noa, team=Team.objects.get(name="default"))
"""


def test_a_key_is_made_and_the_first_request_is_seen(desk: Desk) -> None:
    desk.gateway.django(NOA)
    page = desk.page(width=390)
    page.goto("/account/connect/?model=alpha")
    page.get_by_label("Username").fill("noa")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    model, key, client = (
        page.get_by_role("region", name=name) for name in ("1. A model", "2. A key", "3. A client")
    )
    expect(model.get_by_text("done", exact=True)).to_be_visible()
    expect(key.get_by_text("to do", exact=True)).to_be_visible()

    key.get_by_label("What will use it").fill("laptop")
    key.get_by_role("button", name="Make a key").click()
    expect(key.get_by_text("done", exact=True)).to_be_visible()
    text = page.locator("#corral-key").inner_text()
    expect(client.get_by_text("to do", exact=True)).to_be_visible()
    curl = page.locator("#client-curl").inner_text()
    assert text in curl
    assert desk.gateway.base_url in curl
    short = curl.replace('{"model"', '{"max_tokens": 4, "model"')  # this one never ends by itself
    done = subprocess.run(["bash", "-c", short], capture_output=True, text=True, timeout=120)
    assert '"content"' in done.stdout, done.stderr

    expect(client.get_by_text("done", exact=True)).to_be_visible()
    expect(page.get_by_text("All is set up.")).to_be_visible()
    for summary in page.locator("details summary").all()[1:]:
        summary.click()
    sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(sideways) == 0
    assert poor_contrasts(page, "#first-steps") == []
    page.evaluate("document.documentElement.classList.add('dark')")
    assert poor_contrasts(page, "#first-steps") == []
    page.goto("/account/connect/")
    expect(page.locator("#corral-key")).to_have_count(0)
    assert text not in page.content()
