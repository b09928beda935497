"""When what a connection is based on ends: the server's certificate, our own, a JWT."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from threadbus.bus._nats.client import DirectClient
from threadbus.bus.health import Expiry
from threadbus.bus.settings import BusSettings

_S: Final = 1_000_000_000
_MAX_FILE_BYTES: Final = 1024 * 1024
_SEQUENCE, _UTC_TIME, _GENERALIZED, _CONTEXT_0 = 0x30, 0x17, 0x18, 0xA0


class _Claims(msgspec.Struct):
    exp: int = 0


def expiries(client: DirectClient, settings: BusSettings) -> Iterator[Expiry]:
    """Give what is known to end; what cannot be read is left out."""
    served = client.server_certificate
    if served is not None and (at := certificate_end(served)):
        yield Expiry(what="the certificate of the server", at=at)
    for what, path in (
        ("the certificates of --tls-ca", settings.tls_ca),
        ("the certificate of --tls-cert", settings.tls_cert),
    ):
        ends = [end for der in _pem_blocks(_read(path)) if (end := certificate_end(der))]
        if ends:
            yield Expiry(what=what, at=min(ends))
    if (at := token_end(_read(settings.credentials))) != 0:
        yield Expiry(what="the token of --creds", at=at)


def _read(path: str) -> str:
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            return file.read(_MAX_FILE_BYTES).decode("ascii", "replace")
    except OSError:
        return ""


def _pem_blocks(text: str) -> Iterator[bytes]:
    end = "-----END CERTIFICATE-----"
    for part in text.split("-----BEGIN CERTIFICATE-----")[1:]:
        body, found, _ = part.partition(end)
        if found:
            try:
                yield ssl.PEM_cert_to_DER_cert(f"-----BEGIN CERTIFICATE-----{body}{end}")
            except (ValueError, binascii.Error):
                continue


def token_end(text: str) -> int:
    """Return when the user's JWT in a file of credentials ends, in nanoseconds; 0: it does not."""
    body = text.partition("BEGIN NATS USER JWT-----")[2].partition("------END")[0].strip()
    parts = body.split(".")
    if len(parts) != 3:
        return 0
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return max(0, msgspec.json.decode(claims, type=_Claims).exp) * _S
    except (ValueError, msgspec.MsgspecError):
        return 0


def certificate_end(der: bytes) -> int:
    """Return when a certificate ends, in nanoseconds since the epoch; 0 where it cannot be read.

    Certificate ::= SEQUENCE { tbs SEQUENCE { [0] version, serial, signature, issuer,
    validity SEQUENCE { notBefore, notAfter }, … } … }
    """
    try:
        tbs = _items(_items(der)[0][1])[0][1]
        fields = _items(tbs)
        first = 1 if fields[0][0] == _CONTEXT_0 else 0
        tag, value = _items(fields[first + 3][1])[1]
        text = value.decode("ascii")
        form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED: "%Y%m%d%H%M%SZ"}[tag]
        return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()) * _S
    except (ValueError, KeyError, IndexError):
        return 0


def _items(data: bytes) -> list[tuple[int, bytes]]:
    """Return the tag and content of each item of a DER sequence, as far as they are whole."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at + 2 <= len(data):
        tag, size, start = data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, start = int.from_bytes(data[start : start + count], "big"), start + count
        if start + size > len(data):
            break
        found.append((tag, data[start : start + size]))
        at = start + size
    return found
