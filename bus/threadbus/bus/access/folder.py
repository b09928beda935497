"""The folder of the identities.

access.json                 who there is; no secrets
accounts.conf               the part of the server's configuration, made from it
keys/<tenant>/<name>.nk     the nkey seed of each, to be moved to whom it belongs
signing/keys/…              in operator mode: what tokens are signed with; then the keys of
                            identities are files of credentials, <name>.creds

The folder has mode 0700 and every file 0600. A change is made under a lock, is tried by
``nats-server -t`` first, and is whole or not there, whenever the command is killed
(:mod:`threadbus.bus.access.files`).
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from threadbus.bus.access.checking import check_config
from threadbus.bus.access.files import AccessFiles, NewKey
from threadbus.bus.access.identities import DEFAULT_TENANT, AccessState, Identity, Muted, Tenant
from threadbus.bus.access.keys import make_key
from threadbus.bus.access.signing import Signing
from threadbus.bus.access_errors import (
    AccessFolderError,
    IdentityExistsError,
)
from threadbus.bus.roles import ANYBODY, Extra, Role
from threadbus.bus.server.state import state_folder
from threadbus.schemas import parse_agent_name

_MAX_STATE_BYTES: Final = 64 * 1024 * 1024
_MAX_REASON_CHARS: Final = 400
OPERATOR: Final = "operator"


def default_access_folder() -> Path:
    """Return the folder that ``bus auth`` uses when none is named."""
    return state_folder() / "auth"


class AccessFolder:
    """The identities in one folder; constructing it reads nothing."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = (default_access_folder() if path is None else path).absolute()
        self._files = AccessFiles(self.path)
        self._signing = Signing(self.path)

    @property
    def config(self) -> Path:
        """The part of the server's configuration: ``include`` it, or ``bus up --auth``."""
        return self._files.config

    @property
    def is_interrupted(self) -> bool:
        """Whether a command was killed in the middle of a change, which the next one finishes."""
        return self._files.is_interrupted

    def key_path(self, name: str, tenant: str = DEFAULT_TENANT) -> Path:
        """Return where the nkey of an identity is written; in operator mode its credentials."""
        kind = "creds" if self._signing.is_used else "nk"
        return self.path / "keys" / tenant / f"{name}.{kind}"

    def tenants(self) -> tuple[Tenant, ...]:
        """Return every tenant with its identities.

        Raises:
            AccessFolderError: it cannot be read, or `bus auth init` was not called.
        """
        return self._read().tenants

    async def init(
        self,
        tenant: str = DEFAULT_TENANT,
        *,
        apart: bool = False,
        jwt: bool = False,
        partitions: int = 1,
        inboxes: int = 1,
    ) -> Identity:
        """Make the folder and, in it, a tenant with its operator.

        Args:
            tenant: its name.
            apart: put its streams into another account than its clients, so that nobody can have
                an answer of the server stored (docs/access.md).
            jwt: operator mode: tokens that are signed, instead of nkeys that the server has a list
                of. Only for the first tenant; further ones are as that.
            partitions: streams that its log will be spread over (``--partitions``).
            inboxes: streams that its inboxes will be spread over (``--inboxes``).

        Raises:
            IdentityExistsError: the tenant is there already.
            AccessFolderError: the folder is of the other mode.
            AccessError: see :mod:`threadbus.bus.access_errors`.

        Cancellation: the folder is as it was, but for the key of who was not added.
        """
        parse_agent_name(tenant)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AccessFolderError(str(self.path), error.strerror or str(error)) from error
        with self._changing(is_new=True) as state:
            if state.find(tenant) is not None:
                raise IdentityExistsError(tenant, tenant, "tenant")
            if jwt and state.tenants and not self._signing.is_used:
                raise AccessFolderError(
                    str(self.path), "it is one of nkeys; make another folder for operator mode"
                )
            if not jwt and not state.tenants and self._signing.is_used:
                raise AccessFolderError(
                    str(self.path), "`bus auth init --jwt` was interrupted here: say --jwt again"
                )
            if jwt:
                self._signing.begin()
            if self._signing.is_used:
                self._signing.add_tenant(tenant, apart=apart)
            new = Tenant(name=tenant, apart=apart, partitions=partitions, inboxes=inboxes)
            made, key = self._make_key(
                new, Identity(name=OPERATOR, role=Role.OPERATOR, public_key="")
            )
            state = msgspec.structs.replace(state, jwt=self._signing.is_used)
            await self._write(state.with_tenant(new.with_identity(OPERATOR, made)), key)
            return made

    async def add(
        self,
        name: str,
        role: Role,
        *,
        tenant: str = DEFAULT_TENANT,
        acts_for: Sequence[str] = (),
        can: Sequence[Extra] = (),
    ) -> Identity:
        """Add an identity with a key of its own.

        Args:
            name: an agent's name; of an observer or operator a name of its own.
            role: the row of the table.
            tenant: whose it is.
            acts_for: of a gateway: the other names that it speaks as; ``*`` is everybody.
            can: what it may do besides.

        Raises:
            InvalidNameError: a name is outside the grammar.
            IdentityExistsError, UnknownIdentityError, AccessError: it cannot be added.

        Cancellation: as :meth:`init`.
        """
        parse_agent_name(name)
        _check_names(acts_for)
        with self._changing() as state:
            where = state.tenant(tenant)
            there = where.find(name)
            if there is not None:
                raise IdentityExistsError(name, tenant, there.role)
            wanted = Identity(
                name=name, role=role, public_key="", acts_for=tuple(acts_for), can=tuple(can)
            )
            made, key = self._make_key(where, wanted)
            await self._write(state.with_tenant(where.with_identity(name, made)), key)
            return made

    async def act_for(
        self, name: str, others: Sequence[str], *, tenant: str = DEFAULT_TENANT
    ) -> Identity:
        """Let a gateway speak as *others* besides, with the key that it has.

        In operator mode its permissions are in its credentials, so that it gets new ones.

        Raises:
            InvalidNameError: a name is outside the grammar.
            UnknownIdentityError: there is none of that name.
            AccessFolderError: it is no gateway.
            AccessError: see :mod:`threadbus.bus.access_errors`.

        Cancellation: as :meth:`init`.
        """
        _check_names(others)
        with self._changing() as state:
            where = state.tenant(tenant)
            old = where.identity(name)
            if old.role is not Role.GATEWAY:
                raise AccessFolderError(
                    str(self.path), f"{name} is no gateway ({old.role}): it speaks as itself only"
                )
            wanted = tuple(dict.fromkeys((*old.acts_for, *others)))
            made, key = msgspec.structs.replace(old, acts_for=wanted), None
            if self._signing.is_used:
                made, key = self._make_key(where, made)
                where = self._without(where, old)
            await self._write(state.with_tenant(where.with_identity(name, made)), key)
            return made

    async def rewrite(self) -> None:
        """Make :attr:`config` anew from the identities and the table of roles of this release.

        Also finishes what a killed command began. In operator mode without its signing keys
        nothing is made.

        Raises:
            AccessError: see :mod:`threadbus.bus.access_errors`.

        Cancellation: it is as it was, or made.
        """
        if self._read().jwt and not self._signing.is_used:
            return
        with self._changing() as state:
            await self._write(state)

    async def rotate(self, name: str, tenant: str = DEFAULT_TENANT) -> Identity:
        """Give an identity a new key; the old one is worth nothing once the server reloads.

        Raises:
            UnknownIdentityError: there is none of that name.
            AccessError: see :mod:`threadbus.bus.access_errors`.

        Cancellation: the old key may be in force and its file gone; rotate again.
        """
        with self._changing() as state:
            where = state.tenant(tenant)
            old = where.identity(name)
            made, key = self._make_key(where, old)
            changed = self._without(where, old).with_identity(name, made)
            await self._write(state.with_tenant(changed), key)
            return made

    async def revoke(self, name: str, tenant: str = DEFAULT_TENANT) -> Identity:
        """Take an identity out; its connections are cut once the server reloads.

        Raises:
            UnknownIdentityError: there is none of that name.
            AccessError: see :mod:`threadbus.bus.access_errors`.

        Cancellation: it may or may not be out; revoke it again.
        """
        with self._changing() as state:
            where = state.tenant(tenant)
            gone = where.identity(name)
            changed = self._without(where, gone).with_identity(name, None)
            await self._write(state.with_tenant(changed), gone=self.key_path(name, tenant))
            return gone

    async def mute(
        self,
        name: str,
        tenant: str = DEFAULT_TENANT,
        *,
        by: str,
        reason: str = "",
        until: datetime | None = None,
    ) -> Identity:
        """Let somebody only read until :meth:`unmute`; what it says is refused by the server.

        Args:
            name: who.
            tenant: whose it is.
            by: who says so.
            reason: why.
            until: when it is to end; whoever muted it sees to that.

        Raises:
            UnknownIdentityError: there is none of that name.
            AccessFolderError: it is an operator, who could undo it.
            AccessError: see :mod:`threadbus.bus.access_errors`.

        Cancellation: it may or may not be in force; mute it again.
        """
        end = "" if until is None else until.astimezone(UTC).isoformat(timespec="seconds")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return await self._set_muted(
            name, tenant, Muted(by=by, at=now, reason=reason[:_MAX_REASON_CHARS], until=end)
        )

    async def unmute(self, name: str, tenant: str = DEFAULT_TENANT) -> Identity:
        """Let somebody speak again. Idempotent.

        Raises:
            UnknownIdentityError: there is none of that name.
            AccessError: see :mod:`threadbus.bus.access_errors`.
        """
        return await self._set_muted(name, tenant, None)

    async def _set_muted(self, name: str, tenant: str, muted: Muted | None) -> Identity:
        with self._changing() as state:
            where = state.tenant(tenant)
            old = where.identity(name)
            if old.role is Role.OPERATOR and muted is not None:
                raise AccessFolderError(
                    str(self.path), f"{name} is an operator, who could undo it; revoke it instead"
                )
            changed = msgspec.structs.replace(old, muted=muted)
            await self._write(state.with_tenant(where.with_identity(name, changed)))
            return changed

    async def limit(
        self,
        tenant: str = DEFAULT_TENANT,
        *,
        max_connections: int = 0,
        max_file_bytes: int = 0,
        max_payload_bytes: int = 0,
        max_subscriptions: int = 0,
    ) -> Tenant:
        """Bound what a tenant may take of the server; 0 leaves it open.

        Raises:
            UnknownIdentityError: there is no such tenant.
            AccessError: see :mod:`threadbus.bus.access_errors`.

        Cancellation: it may or may not be in force; set it again.
        """
        with self._changing() as state:
            bounded = msgspec.structs.replace(
                state.tenant(tenant),
                max_connections=max_connections,
                max_file_bytes=max_file_bytes,
                max_payload_bytes=max_payload_bytes,
                max_subscriptions=max_subscriptions,
            )
            await self._write(state.with_tenant(bounded))
            return bounded

    def _make_key(self, tenant: Tenant, identity: Identity) -> tuple[Identity, NewKey]:
        """Return *identity* with a new key, and the key, which is nowhere yet."""
        seed, public = make_key()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        made = msgspec.structs.replace(identity, public_key=public, added_at=now)
        content = seed
        if self._signing.is_used:
            content = self._signing.credentials(tenant, made, seed)
        return made, NewKey(self.key_path(made.name, tenant.name), public, content)

    def _without(self, tenant: Tenant, gone: Identity) -> Tenant:
        """Return a tenant that wants a key no more: in operator mode it has to say so for good."""
        if not self._signing.is_used:
            return tenant
        revoked = {**tenant.revoked, gone.public_key: int(time.time())}
        return msgspec.structs.replace(tenant, revoked=revoked)

    def _read(self) -> AccessState:
        try:
            with self._files.state.open("rb") as file:
                return msgspec.json.decode(file.read(_MAX_STATE_BYTES), type=AccessState)
        except FileNotFoundError:
            raise AccessFolderError(
                str(self.path), "nothing there yet; make it with `bus auth init`"
            ) from None
        except OSError as error:
            raise AccessFolderError(str(self.path), error.strerror or str(error)) from error
        except msgspec.DecodeError as error:
            raise AccessFolderError(str(self.path), f"access.json: {error}") from error

    def _config(self, state: AccessState) -> bytes:
        if self._signing.is_used:
            return self._signing.config(state)
        if state.jwt:
            raise AccessFolderError(
                str(self.path),
                "it is one of operator mode and its signing keys are not here: bring signing/ back",
            )
        return state.to_config()

    async def _write(
        self, state: AccessState, new: NewKey | None = None, gone: Path | None = None
    ) -> None:
        config = self._config(state)
        await check_config(config)
        encoded = msgspec.json.format(msgspec.json.encode(state)) + b"\n"
        self._files.commit(encoded, config, new, gone)

    @contextmanager
    def _changing(self, *, is_new: bool = False) -> Generator[AccessState]:
        """Give who there is to the one command that may change it."""
        with self._files.locked():
            state = AccessState() if is_new and not self._files.state.exists() else self._read()
            if self._files.is_interrupted:
                keys = {
                    one.public_key: self.key_path(one.name, tenant.name)
                    for tenant in state.tenants
                    for one in tenant.identities
                }
                self._files.finish(self._config(state) if state.tenants else None, keys)
            yield state


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if name != ANYBODY:
            parse_agent_name(name)
