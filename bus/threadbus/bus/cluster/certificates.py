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
    """Somebody who vouches for servers.

    Args:
        name: what it is called.
        key: its key, made anew when absent.
        certificate: its certificate in PEM, made anew when absent.
        life: how long a new certificate holds.
    """

    def __init__(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey | None = None,
        certificate: bytes = b"",
        life: timedelta = AUTHORITY_LIFE,
    ) -> None:
        self._name = name
        self._key = key or ec.generate_private_key(ec.SECP256R1())
        self._certificate = certificate or self._sign(name, self._key, life, is_authority=True)

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """Return the one whose files :meth:`write` wrote.

        Its certificate is a new one where it would end before those that it makes.

        Raises:
            OSError: a file cannot be read.
            ValueError: they are not those of an authority, or do not belong together.
        """
        pem = (folder / "ca.pem").read_bytes()
        certificate = x509.load_pem_x509_certificate(pem)
        key = _load_key(folder / "ca.key")
        if certificate.public_key() != key.public_key():
            raise ValueError("ca.key is not the key of ca.pem")
        (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        ends_early = certificate.not_valid_after_utc < datetime.now(UTC) + NODE_LIFE
        return cls(str(name.value), key, b"" if ends_early else pem)

    def write(self, folder: Path) -> None:
        """Write ``ca.pem`` and ``ca.key``, both for their owner only."""
        folder.mkdir(mode=0o700, exist_ok=True)
        write_private(folder / "ca.pem", self._certificate)
        write_private(folder / "ca.key", _pem_of(self._key))

    def issue(self, folder: Path, name: str, host: str, life: timedelta = NODE_LIFE) -> None:
        """Write ``node.pem``, ``node.key`` and ``ca.pem`` for one server, whose key stays.

        Args:
            folder: where to.
            name: the server's name.
            host: what others reach it by; loopback addresses are vouched for besides.
            life: how long the certificate holds.
        """
        there = folder / "node.key"
        key = _load_key(there) if there.exists() else ec.generate_private_key(ec.SECP256R1())
        hosts = dict.fromkeys((host, "localhost", "127.0.0.1", "::1"))
        names = x509.SubjectAlternativeName([_general_name(one) for one in hosts])
        folder.mkdir(mode=0o700, exist_ok=True)
        write_private(folder / "ca.pem", self._certificate)
        write_private(there, _pem_of(key))
        write_private(folder / "node.pem", self._sign(name, key, life, names))

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


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path.name} is a key of another kind")  # noqa: TRY004 - of a file
    return key


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
