"""TLS, passwords and headers of the pages, from a file in the format of Prometheus's own programs.

https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md
"""

import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import bcrypt
import msgspec
import yaml
from msgspec import Struct

from exporter.errors import ConfigError

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENT_CERTIFICATES = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_SUITE = re.compile(
    r"TLS_(ECDHE_(?:RSA|ECDSA))_WITH_(AES_(?:128|256)_GCM|CHACHA20_POLY1305)_SHA\d+"
)
_SUITES = "TLS_ECDHE_{RSA,ECDSA}_WITH_{AES_128_GCM,AES_256_GCM,CHACHA20_POLY1305}_SHA…"


class _Tls(Struct, frozen=True, forbid_unknown_fields=True):
    cert_file: str = ""
    key_file: str = ""
    client_auth_type: Literal[
        "NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert", ""
    ] = ""
    client_ca_file: str = ""
    min_version: Literal["TLS12", "TLS13"] = "TLS12"
    max_version: Literal["TLS12", "TLS13"] = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True


class _Http(Struct, frozen=True, forbid_unknown_fields=True):
    http2: bool = True
    """Accepted and without effect: these pages speak HTTP/1.1."""
    headers: dict[str, str] = {}


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    tls_server_config: _Tls | None = None
    http_server_config: _Http = _Http()
    basic_auth_users: dict[str, str] | None = None


class WebConfig(Struct, frozen=True):
    """What was read.

    `tls`: None for plain HTTP; `certificate`: names of its files, as loaded there; `users`: name →
    bcrypt's hash, none for everybody.
    """

    tls: ssl.SSLContext | None
    certificate: tuple[str, str]
    users: dict[str, str]
    headers: dict[str, str]


def load_web_config(file: str) -> WebConfig:
    """Read the file and the certificates that it names, relative to where it stands.

    Raises: ConfigError: something in it cannot be used; the text says what and what is allowed.
    """
    origin = f"--web.config.file: {file}"
    try:
        document = yaml.safe_load(Path(file).read_bytes())
        read = msgspec.convert(document or {}, _File)
    except OSError as exc:
        raise ConfigError(f"{origin}: cannot be read: {exc.strerror}") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{origin}: not YAML: {' '.join(str(exc).split())}") from exc
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{origin}: {exc}") from exc
    try:
        users = _users(read.basic_auth_users or {})
        tls = _tls(read.tls_server_config, Path(file).parent) if read.tls_server_config else None
    except ConfigError as exc:
        raise ConfigError(f"{origin}: {exc}") from exc
    headers = {name.lower(): value for name, value in read.http_server_config.headers.items()}
    named = read.tls_server_config or _Tls()
    directory = Path(file).parent
    certificate = str(directory / named.cert_file), str(directory / named.key_file)
    return WebConfig(tls, certificate, users, headers)


def _users(users: dict[str, str]) -> dict[str, str]:
    for name, hashed in users.items():
        try:
            bcrypt.checkpw(b"", hashed.encode())
        except ValueError as exc:
            raise ConfigError(
                f"basic_auth_users: the password of {name!r} is no bcrypt hash; make one with"
                " htpasswd -nBC 10"
            ) from exc
    return users


def _tls(tls: _Tls, directory: Path) -> ssl.SSLContext:
    if not tls.cert_file or not tls.key_file:
        raise ConfigError("tls_server_config: needs cert_file and key_file")
    if bool(tls.client_ca_file) != (tls.client_auth_type not in ("", "NoClientCert")):
        raise ConfigError(
            "tls_server_config: client_ca_file and a client_auth_type that verifies need each other"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.maximum_version = _VERSIONS[tls.max_version]
    if tls.prefer_server_cipher_suites:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    if tls.cipher_suites:
        context.set_ciphers(":".join(_openssl_name(suite) for suite in tls.cipher_suites))
    _load(context.load_cert_chain, "cert_file, key_file", directory, tls.cert_file, tls.key_file)
    if tls.client_ca_file:
        _load(context.load_verify_locations, "client_ca_file", directory, tls.client_ca_file)
        context.verify_mode = _CLIENT_CERTIFICATES[tls.client_auth_type]
    return context


def _load(load: Callable[..., None], names: str, directory: Path, *files: str) -> None:
    try:
        load(*(str(directory / file) for file in files))
    except OSError as exc:  # ssl.SSLError is one
        reason = exc.strerror or str(exc)
        raise ConfigError(f"tls_server_config: {names}: {' '.join(files)}: {reason}") from exc


def _openssl_name(suite: str) -> str:
    match = _SUITE.fullmatch(suite)
    if match is None:
        raise ConfigError(f"tls_server_config: cipher_suites: {suite!r}; allowed: {_SUITES}")
    exchange = match[1].replace("_", "-")
    cipher = match[2].replace("AES_", "AES").replace("_", "-")
    digest = "" if "CHACHA" in cipher else f"-{suite.rpartition('_')[2]}"
    return f"{exchange}-{cipher}{digest}"
