"""The live page in Chinese, and the way back to English."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.support.browsing import PASSWORD, Desk

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_live_page_speaks_chinese_and_can_be_switched(desk: Desk) -> None:
    page = desk.page()
    page.set_extra_http_headers({"Accept-Language": "zh-CN"})
    page.goto("/admin/live/")
    page.get_by_label("用户名").fill("anna")
    page.get_by_label("密码").fill(PASSWORD)
    page.get_by_role("button", name="登录").click()

    expect(page.get_by_text("变化会立即显示")).to_be_visible()
    expect(page.get_by_role("heading", name="队列")).to_be_visible()
    page.get_by_label("模型", exact=True).fill("alpha")
    page.keyboard.press("Enter")
    expect(page.get_by_text("alpha 正在加载。")).to_be_visible()
    card = page.get_by_role("article", name="alpha")
    expect(card.get_by_text("已加载", exact=True)).to_be_visible()
    expect(card).to_contain_text(re.compile(r"\d+(秒|分钟)"))
    card.get_by_role("button", name="卸载").click()
    expect(page.get_by_text("alpha 正在卸载。")).to_be_visible()

    page.goto("/account/")
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("button", name="简体中文")).to_be_visible()
    page.goto("/admin/live/")
    expect(page.get_by_text("Live: what changes is shown at once.")).to_be_visible()
