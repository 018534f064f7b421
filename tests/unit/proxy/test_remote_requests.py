"""Where a request to a remote server goes, and which addresses are none of one."""

from __future__ import annotations

import pytest

from models_registry.remote_addresses import address_at, check_proxy, why_not
from proxy.form import model_in_form, named
from proxy.remote.request import via_of


@pytest.mark.parametrize(
    ("base", "path", "there"),
    [
        ("http://h", "/v1/models", "http://h/v1/models"),
        ("http://h/", "/v1/models", "http://h/v1/models"),
        ("http://h/v1", "/v1/models", "http://h/v1/models"),
        ("http://h/v1", "/responses", "http://h/v1/responses"),
        ("http://h", "/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1beta/openai", "/v1/models", "http://h/v1beta/openai/models"),
        ("http://h/v1", "/props", "http://h/props"),
        ("http://h/llm/v1", "/infill", "http://h/llm/infill"),
    ],
)
def test_a_path_is_put_below_the_base_as_clients_of_openai_do(base, path, there):
    assert address_at(base, path) == there


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "0.0.0.0", "::",
        "224.0.0.1", "[fe80::1]",
    ],
)  # fmt: skip
def test_where_secrets_of_machines_are_no_upstream_may_be(address):
    assert why_not(address)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.0.0.5", "192.168.1.2", "8.8.8.8", "::1", "fd12::1", "a.example"]
)
def test_any_other_address_may_be_one(address):
    assert why_not(address) == ""


@pytest.mark.parametrize(
    "url", ["", "proxy:3128", "socks5://p:1", "https://p", "http://", "http://p:0"]
)
def test_what_is_no_http_proxy_is_refused_at_the_start(url):
    with pytest.raises(ValueError, match="http://host:port"):
        check_proxy(url)


def test_a_proxy_may_ask_for_a_password():
    check_proxy("http://user:word@proxy:3128")


def test_each_installation_has_a_name_of_its_own_that_tells_nothing():
    assert via_of("one") == via_of("one") != via_of("two")
    assert "one" not in via_of("one")


TYPE = b"multipart/form-data; boundary=b"
FORM = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n--b--\r\n'


@pytest.mark.parametrize("name", [b"m", "größer".encode(), b"m" * 300])
def test_a_forms_model_is_found_where_it_stands(name):
    form = FORM % name
    place = named(form, TYPE, b"x")[0]

    assert form[place] == name


def test_a_forms_model_is_found_behind_megabytes_and_across_what_is_read_at_once():
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    for extra in range(-4, 5):
        rest = FORM % b"some-model"
        before = (1 << 20) + extra - len(part) - rest.index(b"some-model") - 2 - 5
        form = part + b"x" * before + b"\r\n" + rest
        place = named(form, TYPE, b"x")[0]

        assert form[place] == b"some-model"


def test_a_model_with_what_looks_like_a_boundary_in_it_is_found_too():
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    name = b"a\r\n--c"
    for extra in range(-8, 9):
        rest = FORM % name
        before = (1 << 20) + extra - len(part) - rest.index(name) - 2
        form = part + b"x" * before + b"\r\n" + rest

        assert form[named(form, TYPE, b"x")[0]] == name


@pytest.mark.parametrize("before", [b"", b"\r\n"])
def test_a_form_that_names_no_model_gets_a_part_for_it(before):
    form = before + b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n--b\r\n--b--\r\n'
    place, new = named(form, TYPE, b"m")

    assert form[place] == b""
    assert model_in_form(form[: place.start] + new + form[place.stop :], TYPE) == "m"
    assert (form[: place.start] + new + form[place.stop :]).endswith(form.lstrip())
