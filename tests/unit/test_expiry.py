"""When certificates and tokens end, read without a library for them."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

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


def test_the_end_of_a_certificate(tmp_path: Path) -> None:
    """As openssl itself has it."""
    import ssl
    import subprocess

    path = tmp_path / "c.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            tmp_path / "k.pem",
            "-out",
            path,
            "-days",
            "40",
            "-subj",
            "/CN=x",
        ],
        check=True,
        capture_output=True,
    )
    shown = subprocess.run(
        ["openssl", "x509", "-in", path, "-noout", "-enddate"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    end = datetime.strptime(shown, "notAfter=%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC)

    assert certificate_end(ssl.PEM_cert_to_DER_cert(path.read_text())) == end.timestamp() * S
