"""`manage.py simulate`."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from scheduler.core.decisions import Grant
from scheduler.core.events import Released, Requested
from scheduler.core.values import Config, InstanceId, PresetName, PresetSpec, RequestId
from scheduler.management.commands import simulate
from scheduler.runtime.event_log import Header, encode_header, encode_step


def said(*arguments: str) -> str:
    out = StringIO()
    call_command("simulate", *arguments, stdout=out)
    return out.getvalue()


def test_it_says_what_came_and_how_long_it_took():
    text = said("--trace", "mixed", "--requests", "60", "--policy", "all")

    assert [line.split()[0] for line in text.splitlines()[1:6]] == [
        "policy", "corral", "llamacpp-router", "ollama", "llama-swap",
    ]  # fmt: skip
    assert "simulated in" in text


def test_json_is_for_programs():
    (result,) = json.loads(said("--requests", "40", "--json"))

    assert result["trace"] == "mixed"
    assert result["policies"]["corral"]["served"] == 40


def test_a_value_of_the_configuration_may_be_tried():
    def worst(seconds: int) -> float:
        wishes = (f"--set={name}_seconds={seconds}" for name in ("max_wait", "quantum"))
        busy = ("--trace", "never-idle", "--requests", "3000", "--json")
        (result,) = json.loads(said(*busy, *wishes))
        return float(result["policies"]["corral"]["worst"])

    assert worst(5) < 60 < worst(2000)


@pytest.mark.parametrize(
    "wish",
    ["max_wait_seconds", "nonsense=1", "max_wait_seconds=-1", "max_wait_seconds=soon",
     "queue_limit=1.5", "victim_policy=fifo"],
)  # fmt: skip
def test_what_cannot_be_set_is_refused(wish):
    with pytest.raises(CommandError, match="--set"):
        said("--set", wish)


@pytest.mark.parametrize(
    ("wish", "value"),
    [("keep_alive_seconds=none", None), ("victim_policy=cost", "cost"), ("queue_limit=7", 7)],
)
def test_what_can_be_set_has_the_kind_of_value_that_the_configuration_has(wish, value):
    name = wish.partition("=")[0]

    assert getattr(simulate._configured(Config(), [wish]), name) == value


def test_an_event_log_is_simulated_as_a_trace(tmp_path):
    log = tmp_path / "events-x-0001.jsonl"
    one, a = InstanceId(1), PresetName("a")
    log.write_bytes(
        encode_header(Header("x", 1, "2026-01-01T00:00:00Z", 5.0, Config(), (PresetSpec(a),)))
        + encode_step(6.0, Requested(RequestId(1), a, 6.0), [Grant(RequestId(1), one)])
        + encode_step(9.0, Released(RequestId(1), 12), [])
    )

    (result,) = json.loads(said("--log", str(log), "--json"))

    assert result["policies"]["corral"]["served"] == 1


def test_a_file_that_is_no_event_log_is_refused(tmp_path):
    log = tmp_path / "other"
    log.write_text("not a log\n")

    with pytest.raises(CommandError, match="no event log"):
        said("--log", str(log))


def test_a_log_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(CommandError, match="No such file"):
        said("--log", str(tmp_path / "gone"))


def test_the_document_keeps_what_stands_outside_the_marks():
    page = f"before\n{simulate.BEGIN}\nold\n{simulate.END}\nafter\n"

    text = simulate.with_measured(page, "new")

    assert text == f"before\n{simulate.BEGIN}\n\nnew\n\n{simulate.END}\nafter\n"


def test_a_document_without_marks_is_refused():
    with pytest.raises(CommandError, match="needs the lines"):
        simulate.with_measured(f"{simulate.BEGIN} but no end", "new")


RULES = [*(f"A{number}" for number in range(1, 11)), *(f"V{number}" for number in range(1, 6))]


@pytest.mark.parametrize("rule", RULES)
def test_the_document_explains_every_rule(rule):
    page = (Path(settings.BASE_DIR) / simulate.DOCUMENT).read_text()

    assert f"**{rule}. " in page
    assert simulate.with_measured(page, "") != page
