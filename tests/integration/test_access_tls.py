"""TLS: the server shows a certificate, and with mutual TLS the client does as well."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.access import secured
from threadbus.bus import (
    BusSettings,
    ConnectError,
    InvalidSettingError,
    connect,
    server,
    server_errors,
)


class Authority:
    """Somebody who makes certificates, kept in files."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.path = folder / f"{name}.pem"
        made = self._sign(name, self._key, is_authority=True)
        self.path.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Make a certificate for 127.0.0.1 and its key; return their files."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._sign(name, key, is_authority=False)
        paths = self._folder / f"{name}.cert.pem", self._folder / f"{name}.key.pem"
        paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths

    def _sign(
        self, name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=is_authority,
            crl_sign=is_authority,
            encipher_only=False,
            decipher_only=False,
        )
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(usage, critical=True)
            # Python 3.13 takes no certificate without them.
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )


@pytest.mark.parametrize("mutual", [False, True])
async def test_the_bus_runs_over_tls(tmp_path: Path, mutual: bool) -> None:
    """With the right certificates it connects; with none, or of somebody else, it does not."""
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    cert, key = ours.issue("server")
    limits = server.ServerSettings(tls_cert=cert, tls_key=key, tls_ca=ours.path if mutual else None)
    async with secured(tmp_path, settings=limits) as made:
        assert made.server.url.startswith("tls://")
        nkey = str(made.folder.key_path("operator"))
        own_cert, own_key = map(str, ours.issue("client")) if mutual else ("", "")
        good = BusSettings(
            url=made.server.url,
            nkey=nkey,
            tls_ca=str(ours.path),
            tls_cert=own_cert,
            tls_key=own_key,
        )
        async with connect(good, name="operator") as bus:
            assert (await bus.facts()).version
        bad_cert, bad_key = map(str, theirs.issue("stranger"))
        refused = [BusSettings(url=made.server.url, nkey=nkey, tls_ca=str(theirs.path))]
        if mutual:
            refused.append(BusSettings(url=made.server.url, nkey=nkey, tls_ca=str(ours.path)))
            refused.append(
                BusSettings(
                    url=made.server.url,
                    nkey=nkey,
                    tls_ca=str(ours.path),
                    tls_cert=bad_cert,
                    tls_key=bad_key,
                )
            )
        for settings in refused:
            settings = replace(settings, connect_timeout=timedelta(seconds=2))
            with pytest.raises(ConnectError) as refusal:
                async with connect(settings, name="operator"):
                    pass
            print(refusal.value)


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """The error says which flag and which file."""
    nothing, text = tmp_path / "nothing.pem", tmp_path / "text.pem"
    text.write_text("no certificate")
    for settings, flag in (
        (BusSettings(tls_ca=str(nothing)), "--tls-ca"),
        (BusSettings(tls_ca=str(text)), "--tls-ca"),
        (BusSettings(tls_cert=str(text)), "--tls-key"),
        (BusSettings(tls_cert=str(text), tls_key=str(text)), "--tls-cert"),
    ):
        with pytest.raises(InvalidSettingError, match=flag):
            async with connect(settings, name="web"):
                pass
    with pytest.raises(server_errors.InvalidServerSettingError, match="tls_key"):
        server.ServerSettings(tls_cert=text)
