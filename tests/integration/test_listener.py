"""Addresses become listening sockets, or one readable line."""

import socket

import pytest

from exporter.errors import ConfigError, ExporterError
from exporter.web.listener import listen, url_of


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", ":0"])
def test_a_client_reaches_the_address_that_the_url_names(address: str) -> None:
    with listen(address) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) in (f"http://127.0.0.1:{port}", f"http://localhost:{port}")
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_connections_send_at_once() -> None:
    with listen("127.0.0.1:0") as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
def test_an_ipv6_address_stands_in_brackets() -> None:
    try:
        listener = listen("[::1]:0")
    except ExporterError as exc:
        pytest.skip(f"this machine has no IPv6: {exc}")
    with listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://[::1]:{port}"
        socket.create_connection(("::1", port), timeout=5).close()


@pytest.mark.parametrize(
    "address",
    ["", "10411", "localhost", ":http", ":65536", "::1:9100", "[::1]", "http://x:1", ":-1"],
)
def test_what_is_no_address_is_refused_in_one_line(address: str) -> None:
    with pytest.raises(ConfigError, match=r"is not an address; allowed: .*:10411$"):
        listen(address)


@pytest.mark.parametrize("host", ["no such host", "two..dots"])
def test_a_host_that_cannot_exist_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=f"'{host}:1': no such host: "):
        listen(f"{host}:1")


def test_a_taken_port_names_the_address_and_the_fix() -> None:
    with listen("127.0.0.1:0") as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(ExporterError) as refused:
            listen(address)
    assert str(refused.value) == (
        f"cannot listen on {address}: address already in use; stop what listens there, or choose "
        "another with --web.listen-address"
    )
    assert not isinstance(refused.value, ConfigError)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ExporterError, match="no interface of this machine has it"):
        listen("192.0.2.1:0")
