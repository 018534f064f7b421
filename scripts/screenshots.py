"""The pictures of the documents, docs/images: each page of a gateway that has something to show.

`make screenshots`. It starts one of its own, with real answers of two teams, and ends it.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from tests.support.asking import CHAT, Client, chat_body
from tests.support.browsing import ACCOUNTS, CHROMIUM, OPTIONS, PASSWORD, Desk
from tests.support.gateway import KEY, Gateway, gateway
from tests.support.polling import eventually
from tests.support.quantised import quantised
from tests.support.tiny_model import real_model, tiny_model

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
REAL, LARGER, SLOW, BROKEN = "smollm2-135m", "smollm2-135m-q8", "long-thinker", "cut-off"
WIDTH, HEIGHT = 1280, 860
TEAMS = ("research", "support")
PRESETS = f"""
from models_registry.models import Preset
print(*[Preset.objects.get(name=name).pk for name in ({REAL!r}, {BROKEN!r})])
"""
QUESTIONS = ("Name three colours.", "Write a line about the sea.", "What is a llama?")


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="corral-pictures-") as name:
        folder = Path(name)
        # The settings are read here too, to find the engine: on a state folder of nobody's
        os.environ |= {
            "CORRAL_VAR": str(folder / "unused"),
            "DJANGO_SETTINGS_MODULE": "routerproj.settings",
        }
        models = folder / "models"
        _models(models)
        options = ["--models-max", "2"]
        with gateway(folder, args=options, models={}, models_dir=models) as running:
            running.django(ACCOUNTS)
            _use(running)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
                desk = Desk(running, browser)
                _pictures(desk)
                desk.close()
                browser.close()
                assert not desk.complaints, desk.complaints


def _models(folder: Path) -> None:
    folder.mkdir()
    (folder / f"{REAL}.gguf").symlink_to(real_model())
    (folder / f"{LARGER}.gguf").symlink_to(quantised("q8_0"))
    tiny_model(folder, SLOW, seed=4, blocks=60)
    whole = tiny_model(folder, "tiny", seed=1).read_bytes()
    (folder / f"{BROKEN}.gguf").write_bytes(whole[: len(whole) * 6 // 10])


def _use(running: Gateway) -> None:
    """Answers for two teams, and one load that fails."""
    clients = {team: Client(running.client.port, _key(running, team)) for team in TEAMS}
    for number, question in enumerate(QUESTIONS):
        for team, client in clients.items():
            model = REAL if (team == "research" or number) else LARGER
            body = {**chat_body(model, max_tokens=40), "messages": _asked(question)}
            answer = client.request("POST", CHAT, body)
            assert answer.status == 200, answer.body
    assert clients["support"].chat(BROKEN).status >= 400


def _key(running: Gateway, team: str) -> str:
    made = running.manage("createkey", f"{team}-app", "--team", team)
    found = KEY.search(made.stdout)
    assert found, made
    return found[0]


def _asked(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _pictures(desk: Desk) -> None:
    page = desk.logged_in()
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    with _Waiting(desk.gateway):
        page.goto("/admin/live/")
        expect(page.get_by_text("Live: what changes is shown at once.")).to_be_visible()
        expect(page.get_by_text("req-picture").first).to_be_visible()
        page.set_viewport_size({"width": WIDTH, "height": 1500})
        _shot(page, "live")
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        page.get_by_role("link", name="req-picture").first.click()
        page.wait_for_timeout(1000)
        _shot(page, "why")
        dark = desk.browser.new_context(
            base_url=desk.gateway.base_url,
            color_scheme="dark",
            viewport={"width": 400, "height": 860},
            storage_state=page.context.storage_state(),
        ).new_page()
        dark.goto("/admin/live/")
        expect(dark.get_by_text("req-picture").first).to_be_visible()
        _shot(dark, "live-phone-dark")
        dark.context.close()
    for name, address in _addresses(desk.gateway).items():
        page.goto(address)
        page.wait_for_timeout(1500)
        _shot(page, name)
    _preset_form(page, desk.gateway)
    _playground(desk)


def _addresses(running: Gateway) -> dict[str, str]:
    told = running.manage("shell", "--no-imports", "-c", PRESETS)
    real, broken = told.stdout.split()
    return {
        "presets": "/admin/models_registry/preset/",
        "model": f"/admin/model/{real}/",
        "model-broken": f"/admin/model/{broken}/",
        "usage": "/admin/proxy/usageday/?period=week",
        "connect": "/account/connect/",
    }


def _preset_form(page: Page, running: Gateway) -> None:
    """With a context that is not saved."""
    told = running.manage("shell", "--no-imports", "-c", PRESETS)
    page.goto(f"/admin/models_registry/preset/{told.stdout.split()[0]}/change/")
    page.get_by_label("Context", exact=True).fill("2048")
    page.wait_for_timeout(3000)
    page.locator("#corral-fitting").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('#corral-fitting').scrollIntoView({block: 'start'})")
    page.wait_for_timeout(500)
    _shot(page, "preset-form")


def _playground(desk: Desk) -> None:
    page = desk.page(width=WIDTH, height=HEIGHT)
    page.goto("/account/playground/")
    page.get_by_label("Username").fill("mia")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_label("Model", exact=True).select_option(REAL)
    page.get_by_label("Message", exact=True).fill("Name three animals, as a list.")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    page.wait_for_timeout(1000)
    _shot(page, "playground")


class _Waiting:
    """Two models answer for long, and a request waits for a third."""

    def __init__(self, running: Gateway) -> None:
        self._running = running
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> None:
        for model, tokens, request in ((SLOW, 1500, "req-a"), (LARGER, 400, "req-b")):
            self._begin(model, tokens, request)
            eventually(self._is_answered(model), f"{model} answers", 60)
        self._begin(REAL, 1, "req-picture")

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join(240)

    def _is_answered(self, model: str) -> Callable[[], bool]:
        return lambda: bool(self._running.instance_of(model).get("leases"))

    def _begin(self, model: str, tokens: int, request: str) -> None:
        body = {**chat_body(model, max_tokens=tokens), "ignore_eos": True, "stream": True}
        asked = partial(
            self._running.client.request,
            *("POST", CHAT, body),
            headers={"x-request-id": request},
            timeout=240,
        )
        thread = threading.Thread(target=asked, name=request)
        thread.start()
        self._threads.append(thread)


def _shot(page: Page, name: str) -> None:
    page.screenshot(path=IMAGES / f"{name}.png")
    print(IMAGES / f"{name}.png", flush=True)


if __name__ == "__main__":
    main()
