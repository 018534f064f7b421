"""The admin of someone with a thousand models. Last of the folder: the rows stay."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.browsing import Desk
from tests.support.gateway import Gateway

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LIST = "/admin/models_registry/preset/"
ROWS = """
from models_registry import revision
from models_registry.models import FileMetadata, ModelFile, Preset
files = ModelFile.objects.bulk_create(
    ModelFile(path=f"/zoo/model-{n:04d}.gguf", size=n << 20) for n in range(1000)
)
FileMetadata.objects.bulk_create(
    FileMetadata(model_file=f, stamp="s", name=f"Animal {n}", architecture="llama")
    for n, f in enumerate(files)
)
Preset.objects.bulk_create(
    Preset(
        name=f"zoo/model-{n:04d}", model_file=f, ctx_size=512, tags="wild" if n % 250 else "tame"
    )
    for n, f in enumerate(files)
)
Preset.objects.filter(name="zoo/model-0500").update(name="zoo/" + "long" * 49)
revision.bump()
"""


@pytest.fixture(scope="module")
def thousand(running: Gateway) -> None:
    running.django(ROWS)


@pytest.fixture
def page(thousand: None, desk: Desk) -> Page:
    return desk.logged_in()


def test_one_of_a_thousand_is_found_opened_and_cloned(page: Page) -> None:
    page.goto(LIST)
    expect(page.locator("#result_list tbody tr")).to_have_count(50)

    page.locator("#searchbar").fill("Animal 777")
    page.locator("#searchbar").press("Enter")
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    page.get_by_role("link", name="zoo/model-0777", exact=True).click()
    page.get_by_role("button", name="Clone").click()

    expect(page.get_by_text("This is copy of zoo/model-0777")).to_be_visible()
    expect(page.get_by_role("textbox", name="Name")).to_have_value("copy of zoo/model-0777")
    expect(page.get_by_label("Context", exact=True)).to_have_value("512")


def test_a_filtered_few_get_another_tag_at_once(page: Page) -> None:
    page.goto(f"{LIST}?tag=tame")
    expect(page.locator("#result_list tbody tr")).to_have_count(4)

    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("organise")
    page.get_by_role("button", name="Run").click()
    page.get_by_label("Add tags").fill("house")
    page.get_by_role("button", name="Change 4 presets").click()

    expect(page.get_by_text("4 presets were changed.")).to_be_visible()
    expect(page.get_by_role("cell", name="tame, house")).to_have_count(4)


def test_an_option_is_looked_up_beside_the_form(page: Page) -> None:
    page.goto(f"{LIST}add/")
    page.get_by_text("Look up an option of the engine").click()
    page.get_by_label("Option", exact=True).fill("repeat penal")

    expect(page.get_by_role("row").filter(has_text="repeat-penalty").first).to_be_visible()


def test_a_long_name_pushes_nothing_out_of_sight(page: Page) -> None:
    page.goto(f"{LIST}?q=longlong")
    expect(page.locator("#result_list tbody .field-state")).to_be_in_viewport()
    expect(page.locator("#result_list tbody .field-need")).to_be_in_viewport()
