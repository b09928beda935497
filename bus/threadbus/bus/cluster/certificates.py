"""Certificates for the servers of a cluster, by an authority of its own.

Needs ``threadbus[tls]``, so this module is imported only where certificates are made. The
authority's key stays in the folder of the cluster and goes to no server.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from threadbus.bus.server.files import write_private

AUTHORITY_LIFE: Final = timedelta(days=3650)
NODE_LIFE: Final = timedelta(days=825)
_EARLY: Final = timedelta(hours=1)
"""Clocks may be behind ours."""


class Authority:
    """Somebody who vouches for servers; its key is made anew.

    Args:
        name: what it is called.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(name, self._key, AUTHORITY_LIFE, is_authority=True)

    def write(self, folder: Path) -> None:
        """Write ``ca.pem`` and ``ca.key``, both for their owner only."""
        folder.mkdir(mode=0o700, exist_ok=True)
        write_private(folder / "ca.pem", self._certificate)
        write_private(folder / "ca.key", _pem_of(self._key))

    def issue(self, folder: Path, name: str, host: str) -> None:
        """Write ``node.pem``, ``node.key`` and ``ca.pem`` for one server.

        Args:
            folder: where to.
            name: the server's name.
            host: what others reach it by; loopback addresses are vouched for besides.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = dict.fromkeys((host, "localhost", "127.0.0.1", "::1"))
        names = x509.SubjectAlternativeName([_general_name(one) for one in hosts])
        folder.mkdir(mode=0o700, exist_ok=True)
        write_private(folder / "ca.pem", self._certificate)
        write_private(folder / "node.pem", self._sign(name, key, NODE_LIFE, names))
        write_private(folder / "node.key", _pem_of(key))

    def _sign(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        life: timedelta,
        names: x509.SubjectAlternativeName | None = None,
        *,
        is_authority: bool = False,
    ) -> bytes:
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
        # Python 3.13 takes no certificate without both identifiers.
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named(self._name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLY)
            .not_valid_after(now + life)
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(own, critical=False)
            .add_extension(above, critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
