"""The admin's page on usage: its figures are those of the requests, and everybody can read them."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client

from models_registry.models import Preset
from proxy.models import UsageDay, UsageRecord
from proxy.usage_pages import page as pages
from scheduler.models import InstanceRecord

from ..management import session_of, staff
from .recorded import NOON, a_request, in_batches, many_requests, recorded

pytestmark = pytest.mark.django_db

PAGE = "/admin/proxy/usageday/"
LIST = "/admin/proxy/usagerecord/"
EVIL = '<img src=x onerror="alert(1)">'


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages.timezone, "now", lambda: NOON)


def opened(client: Client, **query: str) -> str:
    answer = client.get(PAGE, query)
    assert answer.status_code == 200
    return answer.content.decode()


def section(page: str, name: str) -> str:
    return page.split(f'id="section-{name}"')[1].split("</section>")[0]


def table(part: str, number: int) -> list[list[str]]:
    """The rows of a section's tables: 0 has the sums, 1 all figures over time."""
    body = re.findall(r"<tbody>(.*?)</tbody>", part, re.S)[number]
    return [
        [
            unescape(re.sub(r"<[^>]+>", "", each)).strip()
            for each in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)
        ]
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.S)
    ]


def test_tokens_are_told_by_team_and_by_model(admin_client: Client) -> None:
    recorded(
        a_request(team="red", team_id=1, preset="alpha", read=1000, cached=300, answered=200),
        a_request(team="red", team_id=1, preset="beta", read=10, cached=0, answered=5),
        a_request(team="blue", team_id=2, preset="beta", read=300, cached=0, answered=85),
        a_request(at=NOON - timedelta(days=1), team="blue", team_id=2, read=1, answered=1),
    )

    page = opened(admin_client)

    assert table(section(page, "tokens-by-team"), 0) == [
        ["red", "1,215", "75.8%", "1,010", "300", "205", "2"],
        ["blue", "387", "24.2%", "301", "40", "86", "2"],
    ]
    assert table(section(page, "tokens-by-team"), 1) == [
        ["2030-01-30", "0", "2"],
        ["2030-01-31", "1,215", "385"],
    ]
    assert [row[:2] for row in table(section(page, "tokens-by-model"), 0)] == [
        ["alpha", "1,202"],
        ["beta", "400"],
    ]


def test_what_is_beyond_the_colours_is_told_together(admin_client: Client) -> None:
    recorded(*(a_request(team=f"t{n}", team_id=n, read=100 * n, answered=0) for n in range(1, 11)))

    rows = table(section(opened(admin_client), "tokens-by-team"), 0)

    assert [row[0] for row in rows] == [*(f"t{n}" for n in range(10, 3, -1)), "all others"]
    assert rows[-1][1] == "600"
    assert table(section(opened(admin_client), "tokens-by-team"), 1)[0][-1] == "600"


def test_requests_are_told_by_how_they_ended_and_errors_by_code(admin_client: Client) -> None:
    recorded(
        a_request(),
        a_request(status=429, code="queue_full", upstream=False, charged=False),
        a_request(status=429, code="queue_full", upstream=False, charged=False),
        a_request(status=200, code="model_died"),
    )

    page = opened(admin_client)

    assert table(section(page, "requests"), 1) == [["2030-01-31", "1", "1", "2"]]
    assert [row[:2] for row in table(section(page, "errors"), 0)] == [
        ["queue_full", "2"],
        ["model_died", "1"],
    ]


def test_percentiles_are_told_within_their_bound(admin_client: Client) -> None:
    in_batches([a_request(first_token=second / 10) for second in range(1, 101)], 50)

    rows = dict(table(section(opened(admin_client), "first_token"), 0))

    assert 5.0 * 0.955 <= float(rows["half within"].removesuffix(" s")) <= 5.0 * 1.045
    assert 9.0 * 0.955 <= float(rows["90 % within"].removesuffix(" s")) <= 9.0 * 1.045


def test_loads_and_evictions_come_from_the_schedulers_record(admin_client: Client) -> None:
    for reason in ("evicted", "evicted", "crashed", "idle"):
        InstanceRecord.objects.create(
            preset="alpha", started_at=NOON, loaded_at=NOON, ended_at=NOON, reason=reason
        )
    InstanceRecord.objects.create(preset="beta", started_at=NOON, loaded_at=NOON)

    whole = table(section(opened(admin_client), "swaps"), 1)
    alpha = table(section(opened(admin_client, model="alpha"), "swaps"), 1)

    assert whole == [["2030-01-31", "5", "2", "1", "1"]]
    assert alpha == [["2030-01-31", "4", "2", "1", "1"]]


@pytest.mark.parametrize(
    ("asked", "tokens"),
    [
        ({"team": "red"}, "110"),
        ({"model": "beta"}, "220"),
        ({"key": "bbbbbbbb"}, "330"),
        ({"team": "blue", "model": "beta", "key": "bbbbbbbb"}, "220"),
        ({"team": "nobody"}, None),
    ],
)
def test_the_page_tells_of_one_team_model_or_key(
    admin_client: Client, asked: Any, tokens: str | None
) -> None:
    recorded(
        a_request(team="red", team_id=1, preset="alpha", key="aaaaaaaa"),
        a_request(team="blue", team_id=2, preset="beta", key="bbbbbbbb"),
        a_request(team="blue", team_id=2, preset="beta", key="bbbbbbbb"),
        a_request(team="blue", team_id=2, preset="alpha", key="bbbbbbbb"),
    )

    part = section(opened(admin_client, **asked), "tokens-by-team")

    if tokens is None:
        assert "Nothing in this time." in part
    else:
        assert [row[1] for row in table(part, 0)] == [tokens]


@pytest.mark.parametrize(
    ("period", "first"),
    [("day", "01-30 13:00"), ("week", "01-24 13:00"), ("month", "2030-01-02")],
)
def test_a_period_ends_now_and_begins_at_a_whole_unit(
    admin_client: Client, period: str, first: str
) -> None:
    page = pages.usage_page(pages.Wish.of({"period": period}), pages.Sight(everything=True))

    assert page["sections"][2].chart is None
    recorded(a_request(), a_request(at=page["span"].start))
    assert table(section(opened(admin_client, period=period), "requests"), 1)[0][0] == first


def test_days_are_those_of_the_zone_that_was_asked_for(admin_client: Client) -> None:
    recorded(a_request(at=NOON.replace(hour=23)), a_request(at=NOON.replace(hour=2)))

    def days(zone: str) -> list[list[str]]:
        return table(section(opened(admin_client, zone=zone), "requests"), 1)

    assert days("UTC") == [["2030-01-31", "2", "0", "0"]]
    assert [row[0] for row in days("America/New_York")] == ["2030-01-30", "2030-01-31"]


@pytest.mark.parametrize(
    "query",
    [
        {"zone": "Mars/Olympus"},
        {"zone": "../../etc/passwd"},
        {"zone": "Europe"},
        {"period": "century"},
        {"team": "x" * 5000},
        {"key": "\0", "model": "\0"},
        {"period": EVIL, "zone": EVIL, "team": EVIL, "model": EVIL, "key": EVIL},
    ],
)
def test_a_question_that_makes_no_sense_is_answered_all_the_same(
    admin_client: Client, query: Any
) -> None:
    page = opened(admin_client, **query)

    assert EVIL not in page
    if "zone" in query:
        assert 'role="alert"' in page


def test_names_are_escaped_everywhere(admin_client: Client) -> None:
    recorded(
        a_request(team=EVIL, preset=EVIL, key=EVIL[:8], asked=EVIL, client=EVIL, code=EVIL[:50])
    )

    record = UsageRecord.objects.get()
    for page in (
        opened(admin_client),
        admin_client.get(LIST).content.decode(),
        admin_client.get(f"{LIST}{record.pk}/change/").content.decode(),
    ):
        assert "<img src=x" not in page


def test_each_chart_says_in_text_what_it_shows(admin_client: Client) -> None:
    in_batches(many_requests(60, seed=1), 20)

    page = opened(admin_client)

    charts = page.count('<svg class="corral-chart')
    assert charts == 8
    assert page.count("<details>") == charts
    assert page.count('role="img" aria-label="') == charts


# Who may see it -------------------------------------------------------------------------------


def test_who_may_not_see_usage_is_refused() -> None:
    client = session_of(staff("proxy.view_team"))

    assert client.get(PAGE).status_code == 403
    assert client.get(LIST).status_code == 403
    assert PAGE not in client.get("/admin/").content.decode()


def test_who_may_see_usage_sees_it_in_the_side_bar() -> None:
    client = session_of(staff("proxy.view_usagerecord"))

    assert client.get(PAGE).status_code == 200
    assert PAGE in client.get("/admin/").content.decode()


def test_nobody_changes_what_was_counted(admin_client: Client) -> None:
    recorded(a_request())
    record, day = UsageRecord.objects.get(), UsageDay.objects.first()
    assert day is not None

    for url in (f"{LIST}add/", f"{PAGE}add/", f"{LIST}{record.pk}/delete/"):
        assert admin_client.post(url, {"read": 1}).status_code == 403
    assert admin_client.post(f"{LIST}{record.pk}/change/", {"read": 1}).status_code == 403
    assert admin_client.get(f"{PAGE}{day.pk}/change/").status_code == 200
    assert UsageRecord.objects.get().read == 100


# Single requests ------------------------------------------------------------------------------


def test_a_request_is_found_by_its_id(admin_client: Client) -> None:
    wanted = a_request(request_id="a b'c", asked="needle")
    recorded(wanted, a_request(asked="hay"))

    page = admin_client.get(LIST, {"q": " a b'c "}).content.decode()

    assert "needle" in page
    assert "hay" not in page


def test_an_odd_search_finds_nothing(admin_client: Client) -> None:
    recorded(a_request(asked="needle"))

    for odd in ("%", "x" * 9000, '"'):
        assert "needle" not in admin_client.get(LIST, {"q": odd}).content.decode()


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("ok", {200}), ("limit", {429}), ("client", {429, 400}), ("server", {502}), ("cut", {206}),
        ("odd", {200, 206, 400, 429, 502}),
    ],
)  # fmt: skip
def test_requests_are_chosen_by_how_they_ended(
    admin_client: Client, kind: str, found: set[int]
) -> None:
    recorded(*(a_request(status=status) for status in (200, 400, 429, 502)))
    recorded(a_request(status=206, code="model_died"))

    answer = admin_client.get(LIST, {"ended": kind})

    assert {record.status for record in answer.context["cl"].result_list} == found


def test_no_list_of_requests_reads_all_of_them(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    recorded(*(a_request() for _ in range(3)))

    with django_assert_max_num_queries(8) as asked:
        admin_client.get(LIST)

    assert not [query for query in asked.captured_queries if "DISTINCT" in query["sql"]]


def test_the_list_tells_what_each_took(admin_client: Client) -> None:
    recorded(
        a_request(),
        a_request(status=502, code="model_died", final=False, charged=False),
        a_request(read=None, cached=None, answered=None, first_token=None, status=400),
    )

    page = admin_client.get(LIST).content.decode()

    assert "100 (40 cached) + 10" in page
    assert "model_died, tried again" in page
    assert "750 ms" in page


def test_the_page_asks_the_same_few_things_whatever_there_is(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    Preset.objects.create(name="alpha")
    in_batches(many_requests(200, seed=2, days=20), 50)

    with django_assert_max_num_queries(20):
        opened(admin_client)


def test_who_used_most_is_said_in_a_sentence(admin_client: Client) -> None:
    recorded(
        a_request(team="builders", team_id=2, read=900, answered=0),
        a_request(team="default", team_id=1, read=100, answered=0),
    )

    page = opened(admin_client, period="week")

    assert "Most tokens: builders, 900 (90.0% of all)." in section(page, "tokens-by-team")
    assert "Most tokens: alpha, 1,000 (100.0% of all)." in section(page, "tokens-by-model")
