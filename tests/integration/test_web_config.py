"""TLS and passwords on the pages, from the file that Prometheus's own programs read."""

import base64
import http.client
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import pytest
import trustme

from tests.daemon import TIMEOUT_S, Daemon, run, running
from tests.programs import require_program

HASH = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()
USERS = f"basic_auth_users: {{prometheus: '{HASH}'}}\n"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def directory(tmp_path: Path, authority: trustme.CA) -> Path:
    """With a certificate for 127.0.0.1, and that of who signed it."""
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return tmp_path


@contextmanager
def serving(directory: Path, text: str, *flags: str) -> Iterator[Daemon]:
    """A daemon with that web config, which Prometheus's own check finds right."""
    file = directory / "web.yml"
    file.write_text(text)
    check = [require_program("promtool"), "check", "web-config", str(file)]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    with running("demo", "--web.config.file", str(file), *flags) as daemon:
        yield daemon


def ask(
    address: str, path: str = "/-/healthy", context: ssl.SSLContext | None = None, **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = (
        http.client.HTTPSConnection(address, timeout=TIMEOUT_S, context=context)
        if context
        else http.client.HTTPConnection(address, timeout=TIMEOUT_S)
    )
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_only_who_knows_a_password_is_let_in(directory: Path) -> None:
    with serving(directory, USERS) as daemon:
        for path in ("/", "/metrics", "/api/live", "/-/healthy", "/nowhere"):
            status, headers, body = ask(daemon.address, path)
            assert (status, headers["www-authenticate"]) == (401, "Basic"), path
            assert b"gpu_" not in body
        for wrong in (
            basic("prometheus", "wrong"),
            basic("nobody", "right"),
            basic("prometheus", "right\0"),
            basic("prometheus", "x" * 100),
            "Basic ####",
            "Basic " + base64.b64encode(b"prometheus").decode(),
            "Basic " + base64.b64encode(b"\xff:right").decode(),
            "Bearer right",
            "Basic",
        ):
            assert ask(daemon.address, Authorization=wrong)[0] == 401, wrong
        for _ in range(2):
            assert ask(daemon.address, Authorization=basic("prometheus", "right"))[0] == 200
        assert not [line for line in daemon.log if "right" in line]


def test_who_is_known_does_not_wait_for_those_who_guess(directory: Path) -> None:
    slow = bcrypt.hashpw(b"right", bcrypt.gensalt(12)).decode()
    right = basic("prometheus", "right")
    with serving(directory, f"basic_auth_users: {{prometheus: '{slow}'}}\n") as daemon:
        assert ask(daemon.address, Authorization=right)[0] == 200
        with ThreadPoolExecutor(12) as guessing:
            guesses = [
                guessing.submit(
                    ask, daemon.address, Authorization=basic("prometheus", f"guess {number}")
                )
                for number in range(12)
            ]
            wait(guesses, return_when=FIRST_COMPLETED)
            assert ask(daemon.address, Authorization=right)[0] == 200
            assert not all(guess.done() for guess in guesses)
        assert {guess.result()[0] for guess in guesses} == {401}


def test_tls_with_the_named_certificate_and_headers(directory: Path, authority: trustme.CA) -> None:
    text = (
        "tls_server_config: {cert_file: cert.pem, key_file: key.pem, min_version: TLS13}\n"
        "http_server_config: {headers: {X-Frame-Options: deny}}\n"
    )
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with serving(directory, text) as daemon:
        status, headers, _ = ask(daemon.address, context=context)
        assert (status, headers["x-frame-options"]) == (200, "deny")
        daemon.wait_for_log(re.compile(r"serves at https://127"))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            ask(daemon.address, context=context)


def test_clients_can_be_asked_for_a_certificate(directory: Path, authority: trustme.CA) -> None:
    text = (
        "tls_server_config:\n"
        "  {cert_file: cert.pem, key_file: key.pem, client_ca_file: ca.pem,\n"
        "   client_auth_type: RequireAndVerifyClientCert,\n"
        "   cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,\n"
        "                   TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256]}\n"
    )
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with serving(directory, text) as daemon:
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            ask(daemon.address, context=context)
        authority.issue_cert("scraper.example").configure_cert(context)
        assert ask(daemon.address, context=context)[0] == 200


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("basic_auth_users: {me: secret}", "the password of 'me' is no bcrypt hash"),
        ("basic_auth: {}", "unknown field `basic_auth`"),
        ("tls_server_config: {cert_file: cert.pem}", "needs cert_file and key_file"),
        (
            "tls_server_config: {cert_file: no.pem, key_file: key.pem}",
            "cert_file, key_file: no.pem key.pem: No such file",
        ),
        (
            "tls_server_config: {cert_file: ca.pem, key_file: key.pem}",
            "cert_file, key_file: ca.pem key.pem:",
        ),
        (
            "tls_server_config: {cert_file: cert.pem, key_file: key.pem, client_ca_file: ca.pem}",
            "need each other",
        ),
        (
            "tls_server_config: {cert_file: cert.pem, key_file: key.pem, cipher_suites: [RC4]}",
            "'RC4'; allowed: TLS_ECDHE_",
        ),
        (
            "tls_server_config: {cert_file: cert.pem, key_file: key.pem, min_version: TLS10}",
            "Invalid enum value 'TLS10'",
        ),
        ("{", "not YAML"),
        ("- list", "Expected `object`, got `array`"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(directory: Path, text: str, told: str) -> None:
    (directory / "web.yml").write_text(text)
    flags = ("--web.listen-address", "127.0.0.1:0", "--web.config.file")
    result = run("demo", "--log.level", "error", *flags, str(directory / "web.yml"))
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert told in line
    assert "secret" not in line


def test_a_reload_takes_other_passwords_and_certificates(
    directory: Path, authority: trustme.CA
) -> None:
    text = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with serving(directory, text) as daemon:
        assert ask(daemon.address, context=context)[0] == 200
        stranger = trustme.CA()
        issued = stranger.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(directory / "key.pem")
        issued.cert_chain_pems[0].write_to_path(directory / "cert.pem")
        (directory / "web.yml").write_text(text + USERS)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for_log(re.compile("settings loaded again"))
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(daemon.address, context=context)
        context = ssl.create_default_context()
        stranger.configure_trust(context)
        assert ask(daemon.address, context=context)[0] == 401
        right = basic("prometheus", "right")
        assert ask(daemon.address, context=context, Authorization=right)[0] == 200
        (directory / "web.yml").write_text(USERS)
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for_log(re.compile("tls_server_config cannot come or go; restart"))
        assert ask(daemon.address, context=context)[0] == 401
