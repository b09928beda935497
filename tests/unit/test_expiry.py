"""When certificates and tokens end, read without a library for them."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from tests.support.certificates import Authority
from threadbus.bus._nats.expiry import certificate_end, token_end

S = 1_000_000_000


def credentials(claims: object) -> str:
    """Make a file of credentials whose JWT says *claims*."""
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return (
        "-----BEGIN NATS USER JWT-----\n"
        f"e30.{body}.c2ln\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\nS\n"
    )


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (credentials({"exp": 1_800_000_000}), 1_800_000_000 * S),
        (credentials({"sub": "U"}), 0),
        (credentials({"exp": -5}), 0),
        (credentials({"exp": "soon"}), 0),
        (credentials([]), 0),
        ("", 0),
        ("-----BEGIN NATS USER JWT-----\na.b\n", 0),
        ("-----BEGIN NATS USER JWT-----\na.!.c\n------END", 0),
    ],
)
def test_the_end_of_a_token(text: str, end: int) -> None:
    """What is none, or does not end, is 0."""
    assert token_end(text) == end


@pytest.mark.parametrize("der", [b"", b"\x30", b"\x30\x82\xff\xff", b"\x00" * 64, b"\x30\x80" * 9])
def test_what_is_no_certificate_has_no_end(der: bytes) -> None:
    """It is left out, not an error."""
    assert certificate_end(der) == 0


@pytest.mark.parametrize("days", [1, 40, 30_000])
def test_the_end_of_a_certificate(tmp_path: Path, days: int) -> None:
    """As another library has it; from 2050 on it is written in another form."""
    path, _ = Authority(tmp_path, "ca", days=days).issue("server")
    read = x509.load_pem_x509_certificate(path.read_bytes())
    der = ssl.PEM_cert_to_DER_cert(path.read_text(encoding="ascii"))

    assert certificate_end(der) == int(read.not_valid_after_utc.timestamp()) * S
