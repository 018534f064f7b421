"""Whether it can serve, as a gateway with all its processes says it."""

from __future__ import annotations

import pytest

from tests.support.gateway import Gateway
from tests.support.polling import eventually

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def test_all_is_well_and_who_may_know_is_told_so(shared: Gateway) -> None:
    def told() -> dict[str, object]:
        answer = shared.client.request("GET", "/ready", key=shared.admin_key)
        assert answer.status == 200, answer.body
        return dict(answer.json)

    eventually(lambda: told()["jobs"] != {"beat_ago": None}, "the jobs show life", 30)
    said = told()
    assert said["status"] == "ok"
    assert said["reasons"] == []
    assert said["devices"]
    assert shared.client.request("GET", "/ready", key="ck_none").json == {"status": "ok"}
