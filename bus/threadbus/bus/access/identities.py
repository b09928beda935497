"""Who there is: the identities of each tenant, without their secrets."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from threadbus.bus.access.apart import exports, heard_from_clients, imports, said_to_streams
from threadbus.bus.access_errors import UnknownIdentityError
from threadbus.bus.roles import Extra, Role, permissions_of

DEFAULT_TENANT: Final = "main"
CLIENTS_SUFFIX: Final = ".clients"
"""What follows the tenant's name in that of the account of its clients, where they have one."""


class Muted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """That somebody may only read, for now: who said so, when, why, until when."""

    by: str
    at: str
    """In UTC."""
    reason: str = ""
    until: str = ""
    """In UTC; empty where it ends by hand. Whoever muted it ends it then."""

    def is_over(self, now: datetime) -> bool:
        """Whether its time has passed."""
        return bool(self.until) and datetime.fromisoformat(self.until) <= now


class Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody with an nkey."""

    name: str
    role: Role
    public_key: str
    acts_for: tuple[str, ...] = ()
    can: tuple[Extra, ...] = ()
    added_at: str = ""
    """When its present key was made, in UTC."""
    muted: Muted | None = None

    def to_user(self, partitions: int = 1, inboxes: int = 1) -> dict[str, Any]:
        """Return the user as the server's configuration has it, for a bus that is so spread."""
        if self.role is Role.OPERATOR:
            return {"nkey": self.public_key}
        # Who is muted goes on reading, so that it sees why.
        is_muted = self.muted is not None
        allowed = permissions_of(
            Role.OBSERVER if is_muted else self.role,
            self.name,
            acts_for=() if is_muted else self.acts_for,
            can=() if is_muted else self.can,
            partitions=partitions,
            inboxes=inboxes,
        )
        return {
            "nkey": self.public_key,
            "permissions": {
                "publish": list(allowed.publish),
                "subscribe": list(allowed.subscribe),
            },
        }


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One NATS account: its own streams, registry and identities; nothing is seen across."""

    name: str
    identities: tuple[Identity, ...] = ()
    max_connections: int = 0
    """Connections at a time; 0 leaves it open."""
    max_file_bytes: int = 0
    """Bytes on disk of all its streams together; 0 leaves it open."""
    max_payload_bytes: int = 0
    """Bytes of one message; 0 leaves it to the server."""
    max_subscriptions: int = 0
    """Subscriptions of one connection; 0 leaves it to the server."""

    revoked: dict[str, int] = {}
    """In operator mode: public keys that are not wanted any more, and since when (Unix seconds)."""
    apart: bool = False
    """Whether the streams are in another account than the clients."""
    partitions: int = 1
    """Streams that its log is spread over."""
    inboxes: int = 1
    """Streams that its inboxes are spread over."""

    def find(self, name: str) -> Identity | None:
        """Return the identity of that name."""
        return next((one for one in self.identities if one.name == name), None)

    def identity(self, name: str) -> Identity:
        """Return the identity of that name.

        Raises:
            UnknownIdentityError: there is none.
        """
        found = self.find(name)
        if found is None:
            known = [one.name for one in self.identities]
            raise UnknownIdentityError(f"identity of tenant {self.name}", name, known)
        return found

    def with_identity(self, name: str, identity: Identity | None) -> Tenant:
        """Return the tenant with *identity* in place of the one called *name*; None is nobody."""
        others = [one for one in self.identities if one.name != name]
        if identity is not None:
            others.append(identity)
        ordered = tuple(sorted(others, key=lambda one: one.name))
        return msgspec.structs.replace(self, identities=ordered)

    def to_accounts(self) -> dict[str, dict[str, Any]]:
        """Return the account, or both, by name, as the server's configuration has them."""
        jetstream = {"max_file": self.max_file_bytes} if self.max_file_bytes else "enabled"
        limits = {
            "max_connections": self.max_connections,
            "max_payload": self.max_payload_bytes,
            "max_subscriptions": self.max_subscriptions,
        }
        clients: dict[str, Any] = {
            "users": [
                identity.to_user(self.partitions, self.inboxes) for identity in self.identities
            ],
            "limits": {name: value for name, value in limits.items() if value},
        }
        if not self.apart:
            return {self.name: {"jetstream": jetstream, **clients}}
        beside = self.name + CLIENTS_SUFFIX
        return {
            self.name: {
                "jetstream": jetstream,
                "exports": exports(),
                "imports": heard_from_clients(beside),
            },
            beside: {**clients, "imports": imports(self.name), "exports": said_to_streams()},
        }


class AccessState(msgspec.Struct, frozen=True, kw_only=True):
    """What ``access.json`` holds."""

    tenants: tuple[Tenant, ...] = ()
    jwt: bool = False
    """Whether the server trusts an operator: operator mode."""

    def find(self, name: str) -> Tenant | None:
        """Return the tenant of that name."""
        return next((one for one in self.tenants if one.name == name), None)

    def tenant(self, name: str) -> Tenant:
        """Return the tenant of that name.

        Raises:
            UnknownIdentityError: there is none.
        """
        found = self.find(name)
        if found is None:
            raise UnknownIdentityError("tenant", name, [one.name for one in self.tenants])
        return found

    def with_tenant(self, tenant: Tenant) -> AccessState:
        """Return the state with *tenant* in place of the one of its name, or added."""
        others = [one for one in self.tenants if one.name != tenant.name]
        tenants = tuple(sorted([*others, tenant], key=lambda one: one.name))
        return msgspec.structs.replace(self, tenants=tenants)

    def to_config(self) -> bytes:
        """Return the part of the server's configuration: an account for each tenant."""
        accounts: dict[str, Any] = {}
        for tenant in self.tenants:
            accounts |= tenant.to_accounts()
        return msgspec.json.format(msgspec.json.encode({"accounts": accounts})) + b"\n"
