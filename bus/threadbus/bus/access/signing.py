"""Operator mode: the server trusts an operator, who signs accounts, which sign their users.

The secrets with which tokens are signed are in the folder ``signing`` of the access folder. The
server's configuration has the tokens of the operator and of the accounts; those of users are in
their files of credentials, and whom an account does not want any more is in its token.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from threadbus.bus.access.apart import (
    claimed_exports,
    claimed_heard_from_clients,
    claimed_imports,
    claimed_said_to_streams,
)
from threadbus.bus.access.identities import CLIENTS_SUFFIX, AccessState, Identity, Tenant
from threadbus.bus.access.keys import KeyKind, make_key, public_key, read_key, write_key
from threadbus.bus.access.tokens import account_limits, credentials_file, sign_claims
from threadbus.bus.access_errors import AccessFolderError
from threadbus.bus.roles import Role, permissions_of

_OPERATOR: Final = "operator"
_SYSTEM: Final = "system"


class Signing:
    """The signing keys in one access folder; constructing it reads nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "signing" / "keys"

    @property
    def is_used(self) -> bool:
        """Whether the access folder is of operator mode."""
        return self._path(_OPERATOR).exists()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.nk"

    def begin(self) -> None:
        """Make the operator and the account of the system, where they are not there."""
        if self._token.exists():
            return
        for name, kind in ((_OPERATOR, KeyKind.OPERATOR), (_SYSTEM, KeyKind.ACCOUNT)):
            if not self._path(name).exists():
                seed, _ = make_key(kind)
                write_key(self._path(name), seed)
        operator = read_key(self._path(_OPERATOR))
        claims = {"system_account": public_key(read_key(self._path(_SYSTEM)))}
        token = sign_claims("operator", "threadbus", public_key(operator), claims, operator)
        # A running server does not take another one, so it is made once.
        write_key(self._token, token.encode())

    @property
    def _token(self) -> Path:
        return self._folder / "operator.jwt"

    def add_tenant(self, name: str, *, apart: bool) -> None:
        """Make the keys of a tenant's account, or of both.

        Raises:
            AccessFolderError: the name is that of another key, which it would share.
        """
        if name in {_OPERATOR, _SYSTEM}:
            raise AccessFolderError(
                str(self._folder.parent.parent),
                f"no tenant of operator mode is called {name}, as the server's own keys are: "
                "choose another name",
            )
        for account in (name, name + CLIENTS_SUFFIX)[: 2 if apart else 1]:
            if not self._path(account).exists():
                seed, _ = make_key(KeyKind.ACCOUNT)
                write_key(self._path(account), seed)

    def credentials(self, tenant: Tenant, identity: Identity, seed: bytes) -> bytes:
        """Return the file of credentials of an identity: its permissions signed, and its seed."""
        claims: dict[str, Any] = {
            "pub": {},
            "sub": {},
            "subs": -1,
            "data": -1,
            "payload": -1,
        }
        if identity.role is not Role.OPERATOR:
            allowed = permissions_of(
                identity.role,
                identity.name,
                acts_for=identity.acts_for,
                can=identity.can,
                partitions=tenant.partitions,
                inboxes=tenant.inboxes,
            )
            claims["pub"] = {"allow": list(allowed.publish)}
            claims["sub"] = {"allow": list(allowed.subscribe)}
        account = tenant.name + (CLIENTS_SUFFIX if tenant.apart else "")
        token = sign_claims(
            "user", identity.name, identity.public_key, claims, read_key(self._path(account))
        )
        return credentials_file(token, seed)

    def config(self, state: AccessState) -> bytes:
        """Return the part of the server's configuration.

        Raises:
            KeyFileError: a signing key cannot be read.
        """
        operator = read_key(self._path(_OPERATOR))
        system = public_key(read_key(self._path(_SYSTEM)))
        tokens = {system: self._account(operator, _SYSTEM, {"limits": account_limits()})}
        for tenant in state.tenants:
            for name, claims in self._claims(tenant).items():
                key = public_key(read_key(self._path(name)))
                tokens[key] = self._account(operator, name, claims)
        shown = {
            "operator": read_key(self._token).decode(),
            "system_account": system,
            "resolver": "MEMORY",
            "resolver_preload": tokens,
        }
        return msgspec.json.format(msgspec.json.encode(shown)) + b"\n"

    def _account(self, operator: bytes, name: str, claims: dict[str, Any]) -> str:
        key = public_key(read_key(self._path(name)))
        return sign_claims("account", name, key, claims, operator)

    def _claims(self, tenant: Tenant) -> dict[str, dict[str, Any]]:
        """Return what the tokens of a tenant's accounts say, by the account's name."""
        limits = {
            "connections": tenant.max_connections,
            "payload": tenant.max_payload_bytes,
            "subscriptions": tenant.max_subscriptions,
        }
        revoked = dict(tenant.revoked)
        for one in tenant.identities:
            if one.muted is not None:
                # Its permissions are in its own hands, so that it can only be kept out.
                revoked[one.public_key] = int(datetime.fromisoformat(one.muted.at).timestamp())
        clients = {"revocations": revoked} if revoked else {}
        disk = tenant.max_file_bytes
        if not tenant.apart:
            return {tenant.name: {"limits": account_limits(**limits, disk=disk), **clients}}
        beside = tenant.name + CLIENTS_SUFFIX
        streams = public_key(read_key(self._path(tenant.name)))
        speakers = public_key(read_key(self._path(beside)))
        return {
            tenant.name: {
                "limits": account_limits(disk=disk),
                "exports": claimed_exports(),
                "imports": claimed_heard_from_clients(speakers),
            },
            beside: {
                "limits": account_limits(**limits),
                "imports": claimed_imports(streams),
                "exports": claimed_said_to_streams(),
                **clients,
            },
        }
