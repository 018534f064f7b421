"""The playground in use: by keyboard, with two models, stopped, with tools, as code."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.browsing import PASSWORD, Desk
from tests.support.gateway import Gateway
from tests.support.polling import eventually
from tests.support.prepared import rows
from tests.support.reading_colours import poor_contrasts

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CHAT = "**/account/playground/teams/*/v1/chat/completions"
MODELS = "**/account/playground/teams/*/v1/models"
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
SESSIONS: list[Any] = []
CASES = Path(__file__).with_name("markdown_cases.json")
RENDERED = """
async (texts) => {
    const { render } = await import("/static/corral/playground/markdown.js");
    return texts.map((text) => {
        const made = document.createElement("div");
        made.append(render(text));
        return made.innerHTML;
    });
}
"""
RAN = "window.ran"
RECORDS = "SELECT request_id FROM proxy_usagerecord WHERE user = 'mia' AND key_name = 'playground'"


def opened(desk: Desk, *, width: int = 1280) -> Page:
    page = desk.page(width=width)
    log_in(page)
    return page


def log_in(page: Page) -> None:
    """Once for all pages: each further one has the session of the first."""
    if SESSIONS:
        page.context.add_cookies(SESSIONS)
        page.goto("/account/playground/")
    else:
        page.goto("/account/playground/")
        page.get_by_label("Username").fill("mia")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Playground", exact=True)).to_be_visible()
    expect(page.get_by_label("Model", exact=True).locator("option")).not_to_have_count(0)
    SESSIONS[:] = SESSIONS or page.context.cookies()


def setting(page: Page, name: str, value: str) -> None:
    if not page.get_by_label("System prompt").is_visible():
        page.get_by_text("System prompt, sampling, tools").click()
    page.get_by_label(name).fill(value)


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def streamed(*deltas: dict[str, Any], finish: str = "stop") -> str:
    chunks: list[Any] = [{"choices": [{"delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": finish}]})
    chunks.append({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def answers(page: Page, *bodies: tuple[int, str]) -> list[Any]:
    """Made up, in this order; returns what is asked."""
    asked: list[Any] = []

    def answer(route: Route) -> None:
        status, body = bodies[len(asked)]
        asked.append(route.request.post_data_json)
        kind = "text/event-stream" if status == 200 else "application/json"
        route.fulfill(status=status, content_type=kind, body=body)

    page.route(CHAT, answer)
    return asked


def test_a_member_chats_by_keyboard_and_it_counts_as_theirs(desk: Desk) -> None:
    page = opened(desk)
    setting(page, "Most tokens", "12")
    setting(page, "Temperature", "0")
    page.get_by_label("Model", exact=True).select_option("alpha")

    say(page, "Name three animals.")

    side = page.get_by_role("region", name="alpha")
    expect(side.get_by_text("Tokens written")).to_be_visible()
    expect(side.get_by_text("at the limit of tokens")).to_be_visible()
    figures = side.locator("[data-figures]").inner_text()
    for name in ("To the first token", "Of that in the queue", "Tokens per second"):
        assert name in figures
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    say(page, "And one more.")
    expect(side.get_by_role("listitem")).to_have_count(4)
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    eventually(lambda: len(rows(desk.gateway.var, RECORDS)) >= 2, "both are recorded as hers")
    page.goto("/account/")
    expect(page.get_by_text("of your sessions, in the playground")).to_be_visible()


def test_stopping_frees_the_slot_and_keeps_what_was_written(desk: Desk) -> None:
    page = opened(desk)
    page.get_by_label("Model", exact=True).select_option("slow")
    say(page, "Go on and on.")
    expect(page.get_by_text("Answering")).to_be_visible()

    page.keyboard.press("Escape")

    expect(page.get_by_text("Stopped.")).to_be_visible()
    eventually(lambda: desk.gateway.instance_of("slow")["leases"] == 0, "the slot is free again")
    expect(page.get_by_role("button", name="Stop")).not_to_be_visible()


@pytest.fixture
def taking_turns(running: Gateway) -> Iterator[None]:
    """Only one of `alpha` and `slow` at a time, and `slow` is loaded."""
    running.unload_all()
    running.django(
        "from models_registry.models import Group, Preset\n"
        "group = Group.objects.create(name='one of them', one_at_a_time=True)\n"
        "for preset in Preset.objects.filter(name__in=('slow', 'alpha')):\n"
        "    preset.group = group\n    preset.save()"
    )
    running.control("load", preset="slow", wait=True)
    yield
    running.unload_all()
    running.django(
        "from models_registry.models import Group\nGroup.objects.get(name='one of them').delete()"
    )


def test_two_models_answer_one_prompt_and_who_waits_is_told_why(
    taking_turns: None, desk: Desk
) -> None:
    page = opened(desk)
    page.get_by_label("Model", exact=True).select_option("beta")
    page.get_by_label("Compare with").select_option("alpha")
    setting(page, "Most tokens", "5")

    with desk.gateway.client.stream("slow", max_tokens=2000) as stream:
        assert stream.next_event()
        say(page, "Both of you.")
        told = page.get_by_role("region", name="alpha").get_by_role("status")
        expect(told).to_contain_text("place 1 for this model")
        expect(told).to_contain_text("all that could make way are answering")
    for name in ("beta", "alpha"):
        expect(page.get_by_role("region", name=name).get_by_text("Tokens written")).to_be_visible()


def test_a_tools_call_is_shown_and_its_result_goes_back(desk: Desk) -> None:
    page = opened(desk)
    call = {"index": 0, "id": "c1", "type": "function"}
    asked = answers(
        page,
        (
            200,
            streamed(
                {"reasoning_content": "It asks for the weather."},
                {"tool_calls": [{**call, "function": {"name": "weather", "arguments": ""}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "Bern"}'}}]},
                finish="tool_calls",
            ),
        ),
        (200, streamed({"content": "It is **sunny**."})),
    )
    setting(page, "Tools", "[{")
    say(page, "How is the weather?")
    expect(page.get_by_text("This is no JSON")).to_be_visible()
    tools = [{"type": "function", "function": {"name": "weather"}}]
    setting(page, "Tools", json.dumps(tools))
    page.get_by_role("button", name="Send", exact=True).click()

    expect(page.get_by_text("Calls weather")).to_be_visible()
    expect(page.get_by_text('"city": "Bern"')).to_be_visible()
    expect(page.get_by_text("It asks for the weather.")).not_to_be_visible()
    page.get_by_text("Reasoning").click()
    expect(page.get_by_text("It asks for the weather.")).to_be_visible()
    page.get_by_label("Result of weather").fill("sunny")
    page.get_by_role("button", name="Send the results").click()

    expect(page.locator(".pg-text strong")).to_have_text("sunny")
    assert asked[0]["tools"] == tools
    assert [each["role"] for each in asked[1]["messages"]] == ["user", "assistant", "tool"]
    assert asked[1]["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": "sunny"}


def test_an_error_says_what_to_do_and_is_tried_again(desk: Desk) -> None:
    page = opened(desk)
    refusal = json.dumps({"error": {"message": "Load less, or try later.", "code": "queue_full"}})
    broken = 'data: {"error": {"message": "The model died.", "code": "model_died"}}\n\n'
    asked = answers(
        page,
        (503, refusal),
        (200, broken),
        (200, "data: {}\n\n"),
        (200, streamed({"content": "x"})),
    )

    say(page, "Hello")
    for told in ("Load less, or try later.", "The model died.", "broke off before its end"):
        expect(page.get_by_role("alert").filter(has_text=told)).to_be_visible()
        page.get_by_role("button", name="Try again").click()

    expect(page.get_by_text("by itself")).to_be_visible()
    assert all(each == asked[0] for each in asked)
    desk.complaints[:] = [each for each in desk.complaints if "503" not in each]


def test_what_was_not_answered_is_left_out_and_who_is_compared_later_knows_what_was_said(
    desk: Desk,
) -> None:
    page = opened(desk)
    refusal = json.dumps({"error": {"message": "Try later.", "code": "queue_full"}})
    content = (200, streamed({"content": "Yes."}))
    asked = answers(page, content, (503, refusal), content, content)
    say(page, "One")
    expect(page.get_by_text("Yes.")).to_be_visible()
    say(page, "Two")
    expect(page.get_by_text("Try later.")).to_be_visible()

    page.get_by_label("Compare with").select_option("beta")
    say(page, "Three")

    expect(page.get_by_role("region", name="beta").get_by_text("Yes.")).to_have_count(2)
    expect(page.get_by_text("Not answered")).to_have_count(2)
    first, second = ([each["content"] for each in told["messages"]] for told in asked[2:])
    assert first == second == ["One", "Yes.", "Three"]
    desk.complaints[:] = [each for each in desk.complaints if "503" not in each]


def test_who_is_logged_out_is_told_so_and_led_to_the_log_in(desk: Desk) -> None:
    page = opened(desk)
    page.context.clear_cookies(name="sessionid")

    say(page, "Hello")

    ended = page.get_by_role("alert").filter(has_text="not logged in any more")
    ended.get_by_role("link", name="Log in").click()
    expect(page.get_by_label("Username")).to_be_visible()
    desk.complaints[:] = [each for each in desk.complaints if "401" not in each]


def test_a_picture_goes_along_to_a_model_that_takes_one(desk: Desk) -> None:
    def seeing(route: Route) -> None:
        answer = route.fetch()
        told = answer.json()
        for model in told["data"]:
            if model["id"] == "beta":
                model["architecture"] = {"input_modalities": ["text", "image"]}
        route.fulfill(response=answer, json=told)

    page = desk.page()
    page.route(MODELS, seeing)
    log_in(page)
    asked = answers(page, (200, streamed({"content": "A dot."})))
    files = page.get_by_label("Add pictures")
    expect(page.locator("#pg-attach")).not_to_be_visible()
    page.get_by_label("Model", exact=True).select_option("beta")

    files.set_input_files({"name": "no.png", "mimeType": "image/png", "buffer": b"no picture"})
    expect(page.get_by_text("no.png is no picture that can be read.")).to_be_visible()
    files.set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": DOT})
    expect(page.get_by_role("img", name="Picture")).to_have_count(1)
    say(page, "What is it?")

    expect(page.get_by_text("A dot.")).to_be_visible()
    text, picture = asked[0]["messages"][0]["content"]
    assert text == {"type": "text", "text": "What is it?"}
    assert picture["image_url"]["url"].startswith("data:image/jpeg;base64,")
    expect(page.locator("#pg-pictures img")).to_have_count(0)

    page.get_by_label("Model", exact=True).select_option("alpha")
    say(page, "And now?")
    refused = page.get_by_text("alpha takes no pictures, and this chat has some")
    expect(refused).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_have_value("And now?")
    page.get_by_label("Model", exact=True).select_option("beta")
    expect(refused).not_to_be_visible()
    assert len(asked) == 1


def test_markup_in_an_answer_is_text_and_markdown_is_shown(desk: Desk) -> None:
    page = opened(desk)
    cases = json.loads(CASES.read_text())

    found = page.evaluate(RENDERED, [each["text"] for each in cases])

    for case, html in zip(cases, found, strict=True):
        assert html == case["html"], case["text"]
    assert page.evaluate(RAN) is None


def test_odd_texts_are_rendered_to_their_end(desk: Desk) -> None:
    page = opened(desk)
    many = 60_000
    texts = [
        piece * (many // len(piece))
        for piece in ("*a _b ", "[", "![", "[a](", "<", "`", "``` ", "> ", "- ", "|-|\n", "~", "**")
    ]
    texts += [
        "`" + "``".join("`" * n for n in range(300)),
        "#" + " " * many + "x",
        "```" + " " * many + "`",
    ]

    assert len(page.evaluate(RENDERED, texts)) == len(texts)


def test_the_code_sends_the_same_request(desk: Desk, tmp_path: Path) -> None:
    page = opened(desk)
    page.get_by_label("Model", exact=True).select_option("alpha")
    setting(page, "Most tokens", "5")
    setting(page, "Top-k", "3")
    with page.expect_request(CHAT) as sent:
        say(page, 'It\'s "odd" $HOME `x` \\ \U0001f40e\n</script>')
    expect(page.get_by_text("at the limit of tokens")).to_be_visible()
    page.get_by_role("button", name="As code").first.click()
    code = page.locator("#pg-code-text")
    expect(code).to_contain_text("curl")
    curl = code.inner_text()
    page.get_by_label("Python").check()
    python = code.inner_text()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()

    environment = {**os.environ, "CORRAL_KEY": desk.gateway.key}
    by_curl = _run(["bash", "-c", curl], environment)
    by_python = _run(["python3", "-c", python], environment)

    assert by_curl.rstrip().endswith("data: [DONE]")
    assert by_python
    body = curl.partition("<<'JSON'\n")[2].rpartition("\nJSON")[0]
    assert json.loads(body) == sent.value.post_data_json
    assert "ck_" not in curl + python


def _run(command: list[str], environment: dict[str, str]) -> str:
    import sys

    command = [sys.executable if each == "python3" else each for each in command]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_staff_find_it_in_the_admin_and_join_a_team_first(desk: Desk) -> None:
    page = desk.logged_in("bert")
    page.get_by_role("link", name="Playground").first.click()
    page.get_by_role("button", name="Join the team default").click()

    expect(page.get_by_label("Model", exact=True).locator("option")).not_to_have_count(0)
    expect(page.get_by_role("link", name="Presets").first).to_be_visible()


def test_on_a_telephone_and_in_the_dark_it_can_be_read(desk: Desk) -> None:
    page = opened(desk, width=360)
    text = "# Title\n\nA `word`, [link](https://example.org).\n\n| a | b |\n|---|---|\n\n```\n"
    answers(page, (200, streamed({"reasoning_content": "Hm."}, {"content": text + "x" * 300})))
    say(page, "x" * 200)
    expect(page.get_by_text("by itself")).to_be_visible()
    setting(page, "Seed", "1")

    sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(sideways) == 0
    assert poor_contrasts(page, "#playground") == []
    page.evaluate("document.documentElement.classList.add('dark')")
    assert poor_contrasts(page, "#playground") == []
