"""What a connection shows of who it is: an nkey, a JWT, a certificate; and what a refusal means."""

from __future__ import annotations

import ssl
from typing import Any, Final

from threadbus.bus.access.keys import check_key_file, is_credentials
from threadbus.bus.access_errors import KeyFileError
from threadbus.bus.settings import BusSettings, InvalidSettingError, without_seed

_REFUSALS: Final = ("authorization violation", "authentication revoked", "authentication expired")


def is_refusal(text: str) -> bool:
    """Whether what the server says means that it does not admit these credentials."""
    lowered = text.lower()
    return any(refusal in lowered for refusal in _REFUSALS)


def connect_options(settings: BusSettings) -> dict[str, Any]:
    """Return what nats-py is told of who connects.

    Raises:
        KeyFileError: the file of an nkey or of credentials cannot be used.
        InvalidSettingError: a file of certificates cannot be used.
    """
    options: dict[str, Any] = {}
    if settings.credentials:
        check_key_file(settings.credentials)
        if not is_credentials(settings.credentials):
            raise KeyFileError(
                without_seed(settings.credentials), "it is no file of credentials; --nkey takes it"
            )
        options["user_credentials"] = settings.credentials
    if settings.nkey:
        check_key_file(settings.nkey)
        # Whoever moves from nkeys to operator mode need not change more than the file.
        kind = "user_credentials" if is_credentials(settings.nkey) else "nkeys_seed"
        options[kind] = settings.nkey
    if settings.tls_ca or settings.tls_cert or settings.tls_key:
        options["tls"] = _tls(settings)
    return options


def _tls(settings: BusSettings) -> ssl.SSLContext:
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise InvalidSettingError(
            "--tls-cert", settings.tls_cert, "given together with --tls-key, or neither"
        )
    name, path = "--tls-ca", settings.tls_ca
    try:
        context = ssl.create_default_context(cafile=path or None)
        if settings.tls_cert:
            name, path = "--tls-cert", settings.tls_cert
            context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or "not PEM"
        raise InvalidSettingError(name, path, f"a readable PEM file ({reason})") from None
    return context
