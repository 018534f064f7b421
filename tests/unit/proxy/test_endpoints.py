from __future__ import annotations

import pytest

from proxy.endpoints import (
    ENDPOINTS,
    REFUSED,
    Kind,
    MethodNotAllowed,
    find_endpoint,
)
from proxy.routing import is_gateway_path
from scheduler.protocol import Refused


@pytest.mark.parametrize("path", sorted(ENDPOINTS))
def test_only_health_and_readiness_are_public(path):
    endpoint = ENDPOINTS[path]
    assert endpoint.public is (endpoint.kind in (Kind.HEALTH, Kind.READY))
    assert is_gateway_path(path)


def test_paths_of_others_are_not_the_gateways():
    assert not any(is_gateway_path(p) for p in ("/", "/admin/", "/v1x", "/modelsx", "/static/a"))
    assert is_gateway_path("/v1/unknown")


def test_a_wrong_method_names_the_right_ones():
    with pytest.raises(MethodNotAllowed) as refusal:
        find_endpoint("/v1/models", "POST")

    assert refusal.value.allowed == ("GET", "HEAD")


@pytest.mark.parametrize(("method", "path"), sorted(REFUSED))
def test_what_is_refused_for_good_says_why(method, path):
    path = path + "0" if path.endswith("/") else path
    assert is_gateway_path(path)

    with pytest.raises(Refused) as refusal:
        find_endpoint(path, method)

    assert refusal.value.code == "not_supported"
    assert " would " in refusal.value.message


@pytest.mark.parametrize("path", ["/v1/models/a/b:Q4", "/models/a"])
def test_a_model_is_asked_for_below_the_list(path):
    assert find_endpoint(path, "GET").kind is Kind.MODEL
