"""Rows of limits: what is refused, who is concerned, and that the gateway knows it in a second."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from proxy.callers import Caller
from proxy.limits.rows import read_limits
from proxy.models import ApiKey, Limit, Team

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return Team.objects.create(name="red")


def key_of(team: Team, name: str = "k", line: str = "") -> ApiKey:
    public_id = f"{name:a<8}"[:8]
    return ApiKey.objects.create(
        team=team, name=name, public_id=public_id, digest="0" * 64, line=line or public_id
    )


def problems(**fields: object) -> str:
    with pytest.raises(ValidationError) as refused:
        Limit(**fields).full_clean()
    return " ".join(refused.value.messages)


def test_a_limit_is_somebodys_and_limits_something(team):
    assert "whose limit" in problems(requests_per_minute=1)
    assert "at least one figure" in problems(team=team)
    assert "make two" in problems(team=team, key=key_of(team), concurrent=1)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("requests_per_minute", -1, "0 or more"),
        ("requests_per_minute", 10**7, "less than or equal"),
        ("tokens_per_minute", -5, "0 or more"),
        ("tokens_per_day", 10**16, "less than or equal"),
        ("concurrent", "many", "integer"),
    ],
)
def test_absurd_figures_are_refused(team, field, value, told):
    assert told in problems(team=team, **{field: value})


def test_zero_is_a_limit(team):
    Limit(team=team, requests_per_minute=0).full_clean()


def test_a_model_that_is_not_there_is_refused(team, preset):
    assert "No preset or alias is called 'nope'" in problems(team=team, model="nope", concurrent=1)
    Limit(team=team, model=preset.name, concurrent=1).full_clean()


def test_whose_and_which_model_there_is_one_row(team, preset):
    Limit.objects.create(team=team, concurrent=1)
    Limit.objects.create(model=preset.name, concurrent=1)

    assert "change that one" in problems(team=team, concurrent=2)
    assert "change that one" in problems(model=preset.name, concurrent=2)
    Limit(team=team, model=preset.name, concurrent=2).full_clean()


def test_each_row_is_counted_by_a_text_of_its_own(team):
    rows = [Limit.objects.create(key=key_of(team, name), concurrent=1) for name in "abc"]

    assert len({row.counter for row in rows}) == 3


def test_a_caller_has_those_of_its_key_its_team_and_everybody(team, preset):
    other = Team.objects.create(name="blue")
    key = key_of(team)
    Limit.objects.create(key=key, requests_per_minute=1)
    Limit.objects.create(team=team, model=preset.name, tokens_per_minute=2)
    Limit.objects.create(team=other, requests_per_minute=3)
    Limit.objects.create(model=preset.name, concurrent=4)
    rows = read_limits()

    def told(caller: Caller) -> list[tuple[str, str]]:
        return [(limit.whose, limit.model) for limit in rows.of(caller).limits]

    name = preset.name
    mine = Caller("red", key.public_id, line=key.line)
    assert told(mine) == [("key", ""), ("team", name), ("everybody", name)]
    assert told(Caller("blue", "zzzzzzzz")) == [("team", ""), ("everybody", name)]
    assert rows.of(mine).limits is rows.of(mine).limits


def test_a_key_and_its_successor_are_counted_together(team):
    key = key_of(team)
    Limit.objects.create(key=key, requests_per_minute=1)
    rows = read_limits()

    assert rows.of(Caller("red", "successo", line=key.line)).limits


def test_without_rows_a_caller_stays_as_it_is(team):
    caller = Caller("red")

    assert read_limits().of(caller) is caller


def test_rows_are_read_by_one_query(team, django_assert_num_queries):
    for name in "abc":
        Limit.objects.create(key=key_of(team, name), concurrent=1)
    with django_assert_num_queries(1):
        read_limits()


def test_a_team_that_goes_takes_its_limits_along(team):
    Limit.objects.create(team=team, concurrent=1)
    team.delete()

    assert not Limit.objects.exists()


def test_the_management_api_adds_changes_and_removes_one(manager, team, preset):
    made = manager.post("/limits", {"team": "red", "requests_per_minute": 60})
    assert made.status == 201
    path = f"/limits/{made.json['id']}"
    counter = Limit.objects.get().counter

    changed = manager.patch(path, {"requests_per_minute": None, "tokens_per_day": 1000})
    assert (changed.json["requests_per_minute"], changed.json["tokens_per_day"]) == (None, 1000)
    assert Limit.objects.get().counter == counter
    assert [row["id"] for row in manager.get("/limits?team=red").json["items"]] == [made.json["id"]]
    versions = Limit.history.count()
    manager.patch(path, {"tokens_per_day": 1000})
    assert Limit.history.count() == versions

    assert manager.delete(path).status == 204
    assert manager.delete(path).status == 404


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"team": "nope", "concurrent": 1}, "team"),
        ({"key": "nope", "concurrent": 1}, "key"),
        ({"team": "red", "concurrent": -1}, "concurrent"),
        ({"team": "red", "concurrent": 1.5}, "concurrent"),
        ({"team": "red", "tokens_per_day": 10**16}, "tokens_per_day"),
        ({"team": "red", "model": "nope", "concurrent": 1}, "model"),
    ],
)
def test_the_management_api_says_what_is_wrong(manager, team, body, param):
    refused = manager.post("/limits", body)

    assert refused.status == 422
    assert refused.param == param
