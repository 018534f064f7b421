"""Downloads reach public addresses of allowed hosts, and nothing else."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from models_registry.downloads.addresses import (
    DEFAULT_HOSTS,
    is_public,
    origin_of,
    parse_hosts,
    rules_of,
)
from models_registry.downloads.planned import Refused


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::7f00:1", "2001:0:4136:e378:8000:63bf:80ff:fffe", "ff02::1", "2001:db8::1",
        "192.0.0.192", "64:ff9b:1::a00:1", "::ffff:0:127.0.0.1", "fec0::1",
        "nonsense",
    ],
)  # fmt: skip
def test_an_address_that_is_not_the_public_internets_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(address)


def names(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """A name server that answers so; returns the list of what it was asked."""
    asked: list[str] = []

    def answer(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


def test_a_name_with_one_private_address_among_public_ones_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names(monkeypatch, "8.8.8.8", "169.254.169.254")

    with pytest.raises(Refused, match=r"169\.254\.169\.254"):
        rules_of(["models.test"]).addresses(origin_of("https://models.test/a.gguf"))


def test_a_name_is_asked_for_once_and_its_checked_addresses_are_what_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = names(monkeypatch, "8.8.8.8", "8.8.4.4", "8.8.8.8")

    found = rules_of(["models.test"]).addresses(origin_of("https://models.test/a.gguf"))

    assert found == ["8.8.8.8", "8.8.4.4"]
    assert asked == ["models.test"]


def test_an_address_written_as_one_number_is_what_it_means() -> None:
    with pytest.raises(Refused, match=r"127\.0\.0\.1"):
        rules_of(["*"]).addresses(origin_of("https://2130706433/a.gguf"))


def test_a_host_with_its_scheme_is_trusted_whatever_address_it_has() -> None:
    rules = rules_of(["http://127.0.0.1:8000"])

    assert rules.addresses(origin_of("http://127.0.0.1:8000/a.gguf")) == ["127.0.0.1"]
    for url in ("http://127.0.0.1:8001/a", "https://127.0.0.1:8000/a"):
        with pytest.raises(Refused, match="CORRAL_DOWNLOAD_HOSTS"):
            rules.check(origin_of(url))


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://huggingface.co/x", True),
        ("https://cdn-lfs.hf.co/x", True),
        ("https://hf.co.evil.test/x", False),
        ("https://evilhf.co/x", False),
        ("https://example.com/x", False),
        ("http://huggingface.co/x", False),
        ("https://huggingface.co:8443/x", False),
    ],
)
def test_what_is_not_on_the_list_is_not_reached(url: str, allowed: bool) -> None:
    rules = rules_of(DEFAULT_HOSTS)
    if allowed:
        rules.check(origin_of(url))
        return
    with pytest.raises(Refused):
        rules.check(origin_of(url))


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/a", "https://", "https://u:p@host/a", "https://h:x/"]
)
def test_only_http_and_https_without_credentials_are_urls(url: str) -> None:
    with pytest.raises(Refused):
        origin_of(url)


def test_the_setting_is_a_list_of_hosts() -> None:
    assert parse_hosts("") == list(DEFAULT_HOSTS)
    assert parse_hosts(" a.test, *.b.test ,http://10.0.0.1:80") == [
        "a.test",
        "*.b.test",
        "http://10.0.0.1:80",
    ]


@pytest.mark.parametrize("text", ["a.test/x", "a b", "http://h/x", "ftp://h", "*.*.h", "*a.test"])
def test_nonsense_in_the_setting_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|http"):
        parse_hosts(text)
