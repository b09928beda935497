"""The folder of a cluster.

cluster.json            which servers there are; no secrets
auth/                   the identities: `bus auth … --folder CLUSTER/auth`
tls/                    the authority that vouches for the servers; ca.pem is for the clients
n1/ n2/ n3/             all that one server needs, to be brought to its machine
  server.conf             its configuration; mode 0600, it holds the password of the routes
  accounts.conf           who may do what: made from auth/
  tls/                    its certificate
  jetstream/              the streams, made by the server
client.env              settings for whoever uses the cluster
operator.env            the same with the operator's key
system.nk               the key with which this folder talks to the servers
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shlex
import shutil
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from threadbus.bus._nats.system import open_system
from threadbus.bus.access.folder import OPERATOR, AccessFolder
from threadbus.bus.access.keys import make_key, public_key, write_key
from threadbus.bus.cluster.layout import ACCOUNTS, COPIES, ClusterPlan, render_node
from threadbus.bus.cluster.renewing import RENEWED, renew_certificates
from threadbus.bus.cluster.running import config_digest, copy_file
from threadbus.bus.cluster.served import certificate_in, served_certificates
from threadbus.bus.cluster.status import ClusterStatus, Renewal, leaders_of, make_status
from threadbus.bus.cluster_errors import CertificatesError, ClusterFolderError
from threadbus.bus.connection import connect
from threadbus.bus.errors import ConnectError
from threadbus.bus.roles import Role
from threadbus.bus.server.files import write_private
from threadbus.bus.settings import BusSettings

_PLAN: Final = "cluster.json"
_CONFIG: Final = "server.conf"
_MAX_BYTES: Final = 64 * 1024 * 1024
_ANSWER_S: Final = 5.0
_RELOAD_S: Final = 20.0
_PAUSE_S: Final = 0.2
_SYSTEM_ACCOUNT: Final = "$SYS"


class ClusterFolder:
    """A cluster in one folder; constructing it reads nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def auth(self) -> AccessFolder:
        """The identities."""
        return AccessFolder(self.path / "auth")

    def node_path(self, name: str) -> Path:
        """Return the folder of one server."""
        return self.path / name

    def plan(self) -> ClusterPlan:
        """Return which servers there are.

        Raises:
            ClusterFolderError: it cannot be read, or there is no cluster.
        """
        content = self._read(_PLAN, "no cluster there; make one with `bus cluster init`")
        try:
            return msgspec.json.decode(content, type=ClusterPlan)
        except msgspec.DecodeError as error:
            raise ClusterFolderError(str(self.path), f"{_PLAN}: {error}") from error

    async def init(self, plan: ClusterPlan, *, apart: bool = False) -> ClusterPlan:
        """Lay out a cluster: the folder is there as a whole, or not at all.

        Args:
            plan: which servers.
            apart: keep streams in an account of their own, as :meth:`AccessFolder.init`.

        Raises:
            ClusterFolderError: it is there already, or cannot be made.
            CertificatesError: with TLS: ``threadbus[tls]`` is not installed.
            AccessError: the identities cannot be made.

        Cancellation: leaves nothing behind.
        """
        try:
            if self.path.exists() and any(self.path.iterdir()):
                raise ClusterFolderError(str(self.path), "there is something in it already")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _alone_in(self.path.with_name(f".{self.path.name}.partial")) as made:
                await ClusterFolder(made)._make(plan, self.path, apart=apart)
                made.replace(self.path)
        except BlockingIOError:
            raise ClusterFolderError(
                str(self.path), "another command makes it just now; try again"
            ) from None
        except OSError as error:
            raise ClusterFolderError(str(self.path), error.strerror or str(error)) from error
        return plan

    async def _make(self, plan: ClusterPlan, final: Path, *, apart: bool) -> None:
        await self.auth.init(apart=apart)
        write_key(self.path / "system.nk", make_key()[0])
        password = secrets.token_urlsafe(32)
        for node in plan.nodes:
            folder = self.node_path(node.name)
            folder.mkdir(mode=0o700)
            write_private(folder / _CONFIG, render_node(plan, node, password))
        if plan.tls:
            self._make_certificates(plan)
        self._write_accounts(plan)
        for node in plan.nodes:
            await config_digest(self.node_path(node.name))
        write_private(self.path / _PLAN, msgspec.json.format(msgspec.json.encode(plan)) + b"\n")
        self._write_settings(plan, final)

    def _make_certificates(self, plan: ClusterPlan) -> None:
        try:
            from threadbus.bus.cluster.certificates import Authority
        except ImportError as error:
            raise CertificatesError(
                "install threadbus[tls], or do without TLS (--no-tls) on a network of your own"
            ) from error
        authority = Authority(f"threadbus cluster {plan.name}")
        authority.write(self.path / "tls")
        for node in plan.nodes:
            authority.issue(self.node_path(node.name) / "tls", node.name, node.host)

    async def sync(
        self, copy: str = "", *, patience: timedelta = timedelta(seconds=20)
    ) -> ClusterStatus:
        """Bring the identities to every server, without a restart.

        Writes ``accounts.conf`` into the folder of each server and has all of them reload.
        Connections whose key is gone are cut; all others stay. Tenants get their streams, with
        three copies, where the operator's key is in the folder.

        Args:
            copy: a command that brings a file to a server elsewhere, run for each one without a
                shell; ``{file}``, ``{host}``, ``{node}`` and ``{path}`` in it are filled in.
            patience: how long a server that does not answer is waited for; three times as long
                where none does.

        Raises:
            ClusterFolderError: the folder cannot be used.
            ClusterCopyError: the command failed.
            AccessConfigError: a server would not take it; nothing was brought anywhere.
            ConnectError: no server can be reached.
            StreamMismatchError: a tenant's stream is not as it must be.

        Cancellation: some servers may have it; sync again.
        """
        plan = self.plan()
        if self.auth.is_interrupted:
            await self.auth.rewrite()
        self._write_accounts(plan)
        digests = await self._digests(plan)
        if copy:
            for node in plan.nodes:
                await copy_file(copy, node, self.node_path(node.name), ACCOUNTS)
        self._write_settings(plan, self.path)
        failures = await self._reload(plan, patience.total_seconds())
        found = await self._look(plan, digests, failures)
        if found.has_leader:
            await self._make_streams(plan)
        return found

    async def renew(
        self,
        copy: str = "",
        *,
        within: timedelta | None = None,
        reload: bool = True,
        patience: timedelta = timedelta(seconds=20),
    ) -> Renewal:
        """Give each server a new certificate, without a restart; keys and connections stay.

        Args:
            copy: as for :meth:`sync`, with ``{path}`` in it; run for each file.
            within: only where a certificate ends so soon.
            reload: have the servers take them in; else they are only written here.
            patience: as for :meth:`sync`.

        Raises:
            ClusterFolderError: the folder cannot be used.
            CertificatesError: they cannot be made.
            ClusterCopyError: the command failed.
            AccessConfigError: a server would not take them.
            ConnectError: no server can be reached: its certificate may have ended; restart it.

        Cancellation: some servers may have theirs; renew again.
        """
        plan = self.plan()
        if copy and "{path}" not in copy:
            raise CertificatesError("--copy needs {path} in it: they go to n1/tls/node.pem")
        if not renew_certificates(self.path, plan, within):
            return Renewal(is_renewed=False)
        digests = await self._digests(plan)
        if not reload:
            return Renewal(is_renewed=True)
        if copy:
            for node in plan.nodes:
                for name in RENEWED:
                    await copy_file(copy, node, self.node_path(node.name), name)
        failures = await self._reload(plan, patience.total_seconds())
        return Renewal(is_renewed=True, cluster=await self._look(plan, digests, failures))

    async def _reload(self, plan: ClusterPlan, patience: float) -> dict[str, str]:
        """Have every server reload, those too that have yet to start; return who did not."""
        deadline = time.monotonic() + patience
        while True:
            try:
                async with open_system(self._system_settings(plan)) as system:
                    answers = await system.servers(len(plan.nodes), _ANSWER_S)
                    is_whole = len(answers) == len(plan.nodes) and bool(leaders_of(answers))
                    if is_whole or time.monotonic() >= deadline:
                        failures: dict[str, str] = {}
                        for answer in answers:
                            reason = await system.reload(answer.server.id, _RELOAD_S)
                            if reason:
                                failures[answer.server.name] = f"did not reload: {reason}"
                        return failures
            except ConnectError:
                # All of them may have been started a moment ago, on a busy machine.
                if time.monotonic() >= deadline + 2 * patience:
                    raise
            await asyncio.sleep(_PAUSE_S)

    async def _make_streams(self, plan: ClusterPlan) -> None:
        """Make the streams of each tenant, which its agents may not."""
        for tenant in self.auth.tenants():
            operators = [one for one in tenant.identities if one.role is Role.OPERATOR]
            keys = [self.auth.key_path(one.name, tenant.name) for one in operators]
            key = next((path for path in keys if path.is_file()), None)
            if key is not None:
                settings = replace(self._settings(plan, key), replicas=COPIES)
                async with connect(settings, name=OPERATOR):
                    pass

    async def status(self) -> ClusterStatus:
        """Look at every server; changes nothing.

        Raises:
            ClusterFolderError: the folder cannot be used.
            ConnectError: no server can be reached.

        Cancellation: safe.
        """
        plan = self.plan()
        return await self._look(plan, await self._digests(plan), {})

    async def _look(
        self, plan: ClusterPlan, digests: Mapping[str, str], failures: Mapping[str, str]
    ) -> ClusterStatus:
        async with open_system(self._system_settings(plan)) as system:
            answers = await system.servers(len(plan.nodes), _ANSWER_S)
        shown = await served_certificates(plan)
        own = {name: (der, certificate_in(self.node_path(name))) for name, der in shown.items()}
        return make_status(plan, answers, digests, failures, own)

    async def _digests(self, plan: ClusterPlan) -> dict[str, str]:
        """Return the digest of each configuration, by which a server tells what it runs with."""
        return {node.name: await config_digest(self.node_path(node.name)) for node in plan.nodes}

    def _system_settings(self, plan: ClusterPlan) -> BusSettings:
        return self._settings(plan, self.path / "system.nk")

    def _settings(self, plan: ClusterPlan, key: Path) -> BusSettings:
        return BusSettings(
            url=plan.urls,
            nkey=str(key),
            tls_ca=str(self.path / "tls" / "ca.pem") if plan.tls else "",
            connect_timeout=timedelta(seconds=_ANSWER_S),
        )

    def _write_accounts(self, plan: ClusterPlan) -> None:
        """Write who may do what into the folder of each server."""
        self.auth.tenants()
        system = public_key(self._read("system.nk", "its system.nk is gone").strip())
        try:
            config = msgspec.json.decode(
                self.auth.config.read_bytes(), type=dict[str, dict[str, object]]
            )
            config.setdefault("accounts", {})[_SYSTEM_ACCOUNT] = {"users": [{"nkey": system}]}
            content = msgspec.json.format(msgspec.json.encode(config)) + b"\n"
            for node in plan.nodes:
                write_private(self.node_path(node.name) / ACCOUNTS, content)
        except OSError as error:
            raise ClusterFolderError(str(self.path), error.strerror or str(error)) from error
        except msgspec.DecodeError as error:
            raise ClusterFolderError(str(self.path), f"auth/accounts.conf: {error}") from error

    def _write_settings(self, plan: ClusterPlan, final: Path) -> None:
        settings = {"BUS_URL": plan.urls, "BUS_COPIES": str(COPIES)}
        if plan.tls:
            settings["BUS_TLS_CA"] = str(final / "tls" / "ca.pem")
        operator = {"BUS_NKEY": str(AccessFolder(final / "auth").key_path(OPERATOR))}
        write_private(self.path / "client.env", _exports(settings))
        write_private(self.path / "operator.env", _exports({**settings, **operator}))

    def _read(self, name: str, missing: str) -> bytes:
        try:
            with (self.path / name).open("rb") as file:
                return file.read(_MAX_BYTES)
        except FileNotFoundError:
            raise ClusterFolderError(str(self.path), missing) from None
        except OSError as error:
            raise ClusterFolderError(str(self.path), error.strerror or str(error)) from error


@contextmanager
def _alone_in(folder: Path) -> Generator[Path]:
    """Give an empty folder to one process at a time; whatever is in it at the end is taken away.

    One that was killed has left keys in it, of servers that never were.

    Raises:
        BlockingIOError: another process is at it.
        OSError: it cannot be made.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        try:
            yield folder
        finally:
            # Not where it has become the cluster.
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(fd)


def _exports(settings: Mapping[str, str]) -> bytes:
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()]
    return "".join(lines).encode()


def check_node_folder(path: Path) -> Path:
    """Return the configuration of the server whose folder *path* is.

    Raises:
        ClusterFolderError: it is not the folder of a server.
    """
    config = path.absolute() / _CONFIG
    if config.is_file():
        return config
    reason = "no server.conf in it: give the folder of one server, CLUSTER/n1 for instance"
    raise ClusterFolderError(str(path), reason)
