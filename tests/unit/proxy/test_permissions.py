"""Every endpoint takes a scope, or is public."""

from __future__ import annotations

import pytest

from proxy.callers import Caller
from proxy.endpoints import BLOBS, CHANGES, ENDPOINTS, OF_MODEL, SOCKETS, Kind, find_endpoint
from proxy.permissions import NEEDS, refuse_without_scope
from proxy.scopes import ALL, OF_SETTINGS, USUAL, Scope, effective, in_order, scopes_problem
from scheduler.protocol import Refused

KINDS = {
    *(each.kind for each in ENDPOINTS.values()),
    *(each.kind for each in CHANGES.values()),
    *SOCKETS.values(),
    *(each.kind for each in OF_MODEL.values()),
    find_endpoint(f"{BLOBS}sha256:0", "HEAD").kind,
    find_endpoint("/models/one", "GET").kind,
}


def test_the_table_has_a_row_for_each_kind_and_every_kind_is_an_endpoints():
    assert set(NEEDS) == set(Kind) == KINDS


def test_what_takes_no_scope_is_public_and_nothing_else_is():
    public = {each.kind for each in ENDPOINTS.values() if each.public}

    assert {kind for kind, needed in NEEDS.items() if not needed} == public


@pytest.mark.parametrize(
    ("path", "method", "scopes"),
    [
        ("/v1/chat/completions", "POST", {"infer"}),
        ("/v1/chat/completions/control", "POST", {"infer"}),
        ("/api/chat", "POST", {"infer"}),
        ("/v1/stream", "DELETE", {"infer"}),
        ("/api/pull", "POST", {"infer"}),
        ("/v1/models", "GET", {"infer", "read"}),
        ("/models/one", "GET", {"infer", "read"}),
        ("/api/tags", "GET", {"infer", "read"}),
        ("/api/ps", "GET", {"read"}),
        ("/slots", "GET", {"read"}),
        ("/models/sse", "GET", {"read"}),
        ("/metrics", "GET", {"metrics"}),
        ("/models/load", "POST", {"load"}),
        ("/models/unload", "POST", {"load"}),
        ("/models", "DELETE", {"admin"}),
        ("/api/create", "POST", {"admin"}),
    ],
)
def test_each_scope_opens_what_it_is_for_and_no_more(path, method, scopes):
    kind = find_endpoint(path, method).kind

    assert {str(scope) for scope in Scope if told(scope, kind) == ""} == scopes | {"admin"}
    assert all("lacks the scope" in told(scope, kind) for scope in {*Scope} - scopes - {"admin"})


def told(scope: Scope, kind: Kind) -> str:
    """Why a key of that scope is refused; empty when it is not."""
    try:
        refuse_without_scope(Caller("t", scopes=effective([scope], may_admin=True)), kind)
    except Refused as refused:
        return f"{refused.code}: {refused.message}"
    return ""


def test_an_admin_key_of_who_is_no_superuser_any_more_keeps_the_rest():
    assert effective(["infer", "admin"], may_admin=True) == ALL
    assert effective(["infer", "admin"], may_admin=False) == {"infer"}
    assert effective(["admin"], may_admin=False) == frozenset()


@pytest.mark.parametrize(
    "scopes", [[], ["root"], ["infer", "infer"], "infer", None, [1], [["infer"]], {"infer": 1}]
)
def test_what_is_no_set_of_scopes_is_told(scopes):
    assert scopes_problem(scopes)


def test_the_same_scopes_are_the_same_list():
    assert in_order(["load", "infer"]) == in_order(["infer", "load"]) == ["infer", "load"]
    assert not scopes_problem([*USUAL])
    assert Scope.ADMIN not in OF_SETTINGS
