"""Where `serve` listens, who can reach it, and what it says when it cannot."""

from __future__ import annotations

import socket

import pytest

from routerproj.serve.listening import CannotListen, is_loopback, listen, listen_on, url_of
from routerproj.serve.main import _how_to_use
from routerproj.serve.options import ServeOptions


def test_port_0_takes_a_free_one() -> None:
    with listen("127.0.0.1", 0) as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_an_ipv6_address_is_written_with_brackets() -> None:
    with listen("::1", 0) as listener:
        assert url_of(listener) == f"http://[::1]:{listener.getsockname()[1]}"


def test_a_port_that_is_taken_is_said_so_with_the_way_out() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(CannotListen, match=rf"port {port} on 127.0.0.1 is taken.*--port"):
            listen("127.0.0.1", port)


def test_ollamas_port_is_a_second_socket() -> None:
    gateway, ollama = listen_on("127.0.0.1", 0, 0)
    with gateway, ollama:
        assert gateway.getsockname()[1] != ollama.getsockname()[1]


def test_without_a_port_for_ollama_there_is_one_socket() -> None:
    (listener,) = listen_on("127.0.0.1", 0, None)
    listener.close()


def test_ollamas_port_is_said_to_be_taken_by_its_own_option() -> None:
    with listen("127.0.0.1", 0) as first:
        taken = first.getsockname()[1]
        with pytest.raises(CannotListen, match=rf"port {taken} .* is taken.*--ollama-port"):
            listen_on("127.0.0.1", 0, taken)


def test_one_port_cannot_be_both() -> None:
    with pytest.raises(CannotListen, match="18080 cannot be both --port and --ollama-port"):
        listen_on("127.0.0.1", 18080, 18080)


def test_where_ollamas_clients_come_is_said() -> None:
    text = _how_to_use(ServeOptions(), None, "http://127.0.0.1:1", "m", "http://127.0.0.1:2")

    assert "http://127.0.0.1:2  (its clients: OLLAMA_HOST)" in text


@pytest.mark.parametrize("host", ["a,b", "corral.sock", "192.0.2.1"])
def test_an_address_that_is_none_of_ours_is_refused(host: str) -> None:
    with pytest.raises(CannotListen, match=host):
        listen(host, 0)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False), ("192.0.2.1", False)],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_who_listens_for_others_is_told_how_they_reach_the_admin() -> None:
    text = _how_to_use(ServeOptions(host="0.0.0.0"), None, "http://127.0.0.1:1", "m")

    assert "CORRAL_ALLOWED_HOSTS" in text
    assert "TLS" in text


def test_later_starts_show_no_key() -> None:
    text = _how_to_use(ServeOptions(), None, "http://127.0.0.1:1", "m")

    assert 'Bearer $CORRAL_KEY"' in text
    assert "createkey" in text


def test_without_a_model_there_is_no_line_to_paste() -> None:
    text = _how_to_use(ServeOptions(), None, "http://127.0.0.1:1", "")

    assert "curl" not in text
    assert "--models-dir" in text
