"""Usage over the management API: what it tells, to whom, and what it refuses."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import AsyncClient, Client
from django.utils import timezone

from proxy.keys import create_key
from proxy.models import ApiKey, Membership, Team, UsageRecord
from proxy.usage_pages.asking import By, Question, series, total, totals
from proxy.usage_pages.sight import Sight
from proxy.usage_pages.spans import Span, Unit

from ..management import Manager, admin_key, session_of, staff
from .recorded import NOON, a_request, in_batches, many_requests, recorded

pytestmark = pytest.mark.django_db

IN_JANUARY = "since=2030-01-01T00:00:00Z&until=2030-02-01T00:00:00Z"
ROUTES = ("summary", "totals", "series", "latency", "requests")


@pytest.fixture
def admin() -> Manager:
    return Manager(admin_key())


def usage(asker: Manager, route: str, more: str = "") -> Any:
    answer = asker.get(f"/usage/{route}?{IN_JANUARY}{more}")
    assert answer.status == 200, answer.text
    return answer.json


def tables(asker: Manager, route: str, more: str = "") -> list[list[str]]:
    """A CSV's lines, as a server sends them."""

    async def exported() -> str:
        client = AsyncClient()
        client.cookies = asker.client.cookies
        answer = await client.get(
            f"/router/api/usage/{route}.csv?{IN_JANUARY}{more}", headers=asker.headers
        )
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
        return b"".join([part async for part in answer.streaming_content]).decode()

    return list(csv.reader(io.StringIO(async_to_sync(exported)())))


# What it tells --------------------------------------------------------------------------------


def test_totals_are_told_for_each_team(admin: Manager) -> None:
    recorded(a_request(), a_request(team="red", team_id=2, read=900), a_request())

    told = usage(admin, "totals")

    assert told["count"] == 2
    red, default = told["items"]
    assert (red["name"], red["tokens"], red["requests"]) == ("red", 910, 1)
    assert (default["name"], default["tokens"], default["cached"]) == ("default", 220, 80)
    assert (default["duration"], default["queue_wait"]) == (4.0, 1.0)


def test_a_series_has_all_its_units_and_is_paged_by_them(admin: Manager) -> None:
    recorded(a_request(), a_request(at=NOON - timedelta(days=2), preset="beta"))

    told = usage(admin, "series", "&by=model&limit=3&offset=28")

    assert told["count"] == 31
    assert [unit["start"][:10] for unit in told["items"]] == [
        "2030-01-29",
        "2030-01-30",
        "2030-01-31",
    ]
    assert [[each["name"] for each in unit["of"]] for unit in told["items"]] == [
        ["beta"],
        [],
        ["alpha"],
    ]
    assert usage(admin, "series", "&offset=31")["items"] == []


def test_the_summary_tells_percentiles_and_codes(admin: Manager) -> None:
    recorded(
        *(a_request(duration=float(seconds)) for seconds in range(1, 101)),
        a_request(status=429, code="queue_full", upstream=False, charged=False, duration=None),
    )

    told = usage(admin, "summary")

    assert (told["total"]["requests"], told["codes"]) == (101, {"queue_full": 1})
    spread = told["latency"]["duration"]
    assert (spread["count"], spread["mean"]) == (100, 50.5)
    for share, right in (("p50", 50), ("p90", 90), ("p99", 99)):
        assert right * 0.955 <= spread[share] <= right * 1.045


def test_an_empty_time_is_told_as_such(admin: Manager) -> None:
    told = usage(admin, "summary")

    assert told["total"]["requests"] == 0
    assert told["latency"]["duration"]["p50"] is None
    assert usage(admin, "latency")["count"] == 31


def test_days_are_those_of_the_zone(admin: Manager) -> None:
    recorded(a_request(at=NOON.replace(hour=2)))

    told = usage(admin, "series", "&zone=America/New_York")

    used = [unit["start"] for unit in told["items"] if unit["of"]]
    assert used == ["2030-01-30T00:00:00-05:00"]


def test_single_requests_are_filtered_the_newest_first(admin: Manager) -> None:
    recorded(
        a_request(at=NOON - timedelta(hours=1), request_id="older"),
        a_request(request_id="newer"),
        a_request(status=429, code="queue_full", team="red", team_id=2, request_id="refused"),
    )

    def ids(more: str) -> list[str]:
        return [each["request_id"] for each in usage(admin, "requests", more)["items"]]

    assert ids("&team=default") == ["newer", "older"]
    assert ids("&code=queue_full") == ids("&status=429") == ids("&team=red") == ["refused"]
    assert ids("&request_id=older") == ["older"]
    assert ids("&model=nothing") == []


@pytest.mark.parametrize("by", list(By))
@pytest.mark.parametrize(
    "only", [{}, {By.TEAM: "builders"}, {By.MODEL: "beta", By.KEY: "bbbbbbbb"}]
)
def test_sums_are_those_of_the_requests_they_are_sums_of(by: By, only: dict[By, str]) -> None:
    requests = many_requests(250, seed=11, days=6)
    in_batches(requests, 60)
    span = Span.around(NOON - timedelta(days=3, hours=5), NOON, Unit.HOUR)
    question = Question(Sight(everything=True), span, only)
    column = {By.TEAM: "team", By.MODEL: "preset", By.KEY: "key", By.USER: "user"}
    right: dict[str, int] = {}
    for each in requests:
        named = all(getattr(each, column[name]) == value for name, value in only.items())
        if named and span.start <= each.at < span.end and each.charged:
            name = getattr(each, column[by])
            right[name] = right.get(name, 0) + (each.read or 0)

    told = {name: numbers["read"] for name, numbers in totals(question, by).items()}
    over_time: dict[str, int] = {}
    for (_, name), numbers in series(question, by).items():
        over_time[name] = over_time.get(name, 0) + numbers["read"]

    assert {name: read for name, read in told.items() if read} == {
        n: r for n, r in right.items() if r
    }
    assert over_time == told
    assert total(question)["read"] == sum(right.values())


# CSV ------------------------------------------------------------------------------------------


def test_a_table_of_each_is_exported(admin: Manager) -> None:
    in_batches(many_requests(40, seed=5, days=9), 20)

    head, *rows = tables(admin, "totals", "&by=model")
    assert head[:2] == ["model", "requests"]
    assert {row[0] for row in rows} == {"alpha", "beta", "user/repo:Q4", ""}
    assert len(tables(admin, "latency")) == 32
    told = usage(admin, "series", "&by=team")
    assert len(tables(admin, "series", "&by=team")) == 1 + sum(len(u["of"]) for u in told["items"])


def test_all_requests_are_exported_once_though_many_begin_at_once(
    admin: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.usage_pages.tables.in_pieces.__defaults__", (7,))
    recorded(*(a_request(request_id=f"q{number}") for number in range(40)))

    head, *rows = tables(admin, "requests")

    column = head.index("request_id")
    assert [row[column] for row in rows] == [f"q{number}" for number in range(40)]


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|'/c calc'!A0"]
)
def test_no_text_of_a_client_is_a_formula(admin: Manager, text: str) -> None:
    recorded(a_request(asked=text, client=text, preset=text, team=text))

    for route, more in (("requests", ""), ("totals", "&by=model"), ("series", "&by=team")):
        cells = [cell for row in tables(admin, route, more)[1:] for cell in row]
        assert not [cell for cell in cells if cell.strip() and cell[0] in "=+-@\t\r"]
        assert any(text.strip() in cell for cell in cells)


# To whom --------------------------------------------------------------------------------------


@pytest.fixture
def people() -> dict[str, Manager]:
    """Red has a lead and a member with a key each, and a service; blue has somebody, too."""
    red, blue = Team.objects.create(name="red"), Team.objects.create(name="blue")
    askers: dict[str, Manager] = {}
    for name, team, role in (
        ("lead", red, "lead"), ("member", red, "member"), ("other", blue, "member"),
    ):  # fmt: skip
        person = User.objects.create_user(name)
        Membership.objects.create(user=person, team=team, role=role)
        text = create_key(name, team.name)
        ApiKey.objects.filter(name=name).update(user=person)
        askers[name] = Manager(client=session_of(person))
        askers[f"{name}'s key"] = Manager(text)
    askers["service's key"] = Manager(create_key("service", "red"))
    askers["admin"] = Manager(admin_key())
    askers["watcher"] = Manager(client=session_of(staff("proxy.view_usagerecord")))
    askers["stranger"] = Manager(client=session_of(User.objects.create_user("stranger")))
    for key in ApiKey.objects.select_related("team", "user").exclude(name="robot"):
        recorded(
            a_request(
                key=key.public_id, key_name=key.name, team=key.team.name, team_id=key.team_id,
                user=key.user.username if key.user else "",
            )
        )  # fmt: skip
    recorded(a_request(key="gone", key_name="gone", team="red", team_id=red.pk))
    recorded(a_request(key="old", key_name="old", team="red", team_id=999))  # another red, long ago
    return askers


SEES = {
    "admin": {"lead", "member", "other", "service", "gone", "old"},
    "watcher": {"lead", "member", "other", "service", "gone", "old"},
    "lead": {"lead", "member", "service", "gone"},
    "member": {"member"},
    "other": {"other"},
    "stranger": set(),
    "lead's key": {"lead"},
    "member's key": {"member"},
    "service's key": {"service"},
}


@pytest.mark.parametrize("who", SEES)
def test_everybody_sees_what_is_theirs_and_nothing_else(
    people: dict[str, Manager], who: str
) -> None:
    asker = people[who]

    listed = usage(asker, "requests")["items"]
    by_key = usage(asker, "totals", "&by=key")["items"]
    head, *rows = tables(asker, "requests")
    exported = [row[head.index("key_name")] for row in rows]

    assert {each["key_name"] for each in listed} == set(exported) == SEES[who]
    assert {each["name"] for each in by_key} == {each["key"] for each in listed}
    for route, more in (
        ("summary", ""), ("summary", "&team=red"), ("summary", "&model=alpha"),
        ("summary", "&user=other"), ("series", "&by=model"), ("latency", ""),
    ):  # fmt: skip
        assert _requests(usage(asker, route, more)) == len(
            [
                each for each in listed
                if (more != "&team=red" or each["team"] == "red")
                and (more != "&user=other" or each["user"] == "other")
            ]
        ), (route, more)  # fmt: skip


def _requests(told: Any) -> int:
    if "total" in told:
        return int(told["total"]["requests"])
    if told["items"] and "of" in told["items"][0]:
        return sum(each["requests"] for unit in told["items"] for each in unit["of"])
    return sum(unit["duration"]["count"] for unit in told["items"])


def test_a_key_that_may_not_read_is_refused(people: dict[str, Manager]) -> None:
    ApiKey.objects.filter(name="service").update(scopes=["infer"])

    for route in ROUTES:
        for path in (f"/usage/{route}", f"/usage/{route}.csv"):
            if path != "/usage/summary.csv":
                answer = people["service's key"].get(path)
                assert (answer.status, answer.code) == (403, "permission_denied"), path


def test_nobody_is_refused(settings: Any) -> None:
    settings.CORRAL_API_KEYS = ["sk-settings"]

    for asker in (Manager(), Manager("ck_aaaaaaaa_" + "x" * 43)):
        assert asker.get("/usage/summary").status == 401
    assert Manager("sk-settings").get("/usage/requests").status == 403


def test_who_leaves_a_team_or_is_no_longer_its_lead_sees_it_no_more(
    people: dict[str, Manager],
) -> None:
    Membership.objects.filter(user__username="lead").update(role="member")

    assert {row["key_name"] for row in usage(people["lead"], "requests")["items"]} == {"lead"}


def test_a_rotated_key_sees_what_its_predecessor_used(people: dict[str, Manager]) -> None:
    old = ApiKey.objects.get(name="service")
    text = create_key("service 2", "red")
    ApiKey.objects.filter(name="service 2").update(line=old.line)

    listed = usage(Manager(text), "requests")["items"]

    assert {row["key_name"] for row in listed} == {"service"}


# What it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=yesterday", "since"),
        ("until=2030-01-01", "until"),
        ("zone=Mars/Olympus", "zone"),
        ("zone=../../etc/passwd", "zone"),
        ("zone=Europe", "zone"),
        ("unit=minute", "unit"),
        ("by=nobody", "by"),
        ("limit=0", "limit"),
        ("limit=1000", "limit"),
        ("offset=-1", "offset"),
        ("team=" + "x" * 101, "team"),
        ("colour=red", "colour"),
    ],
)
def test_what_makes_no_sense_is_refused_at_its_field(
    admin: Manager, query: str, field: str
) -> None:
    answer = admin.get(f"/usage/totals?{query}")

    assert (answer.status, answer.code, answer.param) == (422, "validation_failed", field)


@pytest.mark.parametrize(
    "query",
    [
        "since=2030-02-01T00:00:00Z&until=2030-01-01T00:00:00Z",
        "since=1970-01-01T00:00:00Z&until=8999-01-01T00:00:00Z&unit=hour",
        "since=1970-01-01T00:00:00Z&until=8999-01-01T00:00:00Z",
    ],
)
def test_a_time_that_cannot_be_is_refused(admin: Manager, query: str) -> None:
    for route in ("summary", "totals", "series", "latency", "series.csv"):
        answer = admin.get(f"/usage/{route}?{query}")
        assert (answer.status, answer.code) == (422, "validation_failed")


def test_without_a_time_it_is_the_last_thirty_days(admin: Manager) -> None:
    now = timezone.now()
    recorded(a_request(at=now), a_request(at=now - timedelta(days=40)))

    assert admin.get("/usage/summary").json["total"]["requests"] == 1
    assert UsageRecord.objects.count() == 2


def test_a_session_that_is_not_staffs_asks_for_its_own(people: dict[str, Manager]) -> None:
    assert isinstance(people["member"].client, Client)
    assert people["member"].get("/keys").status == 403
    assert people["member"].get("/usage/summary").status == 200
