"""A route that takes no body says so: what stands in one would else be ignored."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.django_db

PATH = "/presets/user/repo:Q4_K_M"


@pytest.mark.parametrize(
    ("verb", "body", "param", "hint"),
    [
        ("load", {"wait": True}, "wait", "Write wait after the ?"),
        ("unload", {"force": True}, "force", "Write force after the ?"),
        ("pin", {"x": 1}, "x", ""),
        ("unpin", [], None, ""),
        ("apply", "now", None, ""),
        ("measure", None, None, ""),
    ],
)
def test_a_body_is_refused_where_none_is_taken(manager, preset, scheduler, verb, body, param, hint):
    sent = b"null" if body is None else body

    answer = manager.post(f"{PATH}/{verb}", sent)

    assert (answer.status, answer.code, answer.param) == (422, "validation_failed", param)
    assert "No body is taken here" in answer.message
    assert hint in answer.message
    assert not scheduler.asked
    assert not scheduler.measured


@pytest.mark.parametrize("body", [b"{", b"\xff", b"wait=true", b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused_there_too(manager, preset, scheduler, body):
    answer = manager.post(f"{PATH}/load", body)

    assert (answer.status, answer.code) == (400, "invalid_json")
    assert not scheduler.asked


def test_a_delete_reads_no_body_either(manager, preset):
    answer = manager.ask("DELETE", f"/models/{preset.model_file_id}", {"cascade": True})

    assert (answer.status, answer.param) == (422, "cascade")


@pytest.mark.parametrize("body", [None, b"", b" \n", b"{}"])
def test_a_body_that_says_nothing_is_no_obstacle(manager, preset, body):
    assert manager.post(f"{PATH}/load", body).status == 200
