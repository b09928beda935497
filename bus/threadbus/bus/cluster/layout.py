"""Which servers a cluster has, and the configuration file of each.

The file is JSON, which nats-server reads as its own format. Its paths are relative to the folder
of the node, in which the server is started: so the folder may be moved to any machine.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from threadbus.bus.server.settings import (
    DEFAULT_PORT,
    MAX_CONSUMERS,
    check_address,
    server_url,
)
from threadbus.bus.server_errors import InvalidServerSettingError

CLUSTER_PORT: Final = 6222
"""The port on which the servers of a cluster reach one another."""

SIZES: Final = (3, 5)
"""How many servers a cluster may have: one of them, or two, may then be down."""

COPIES: Final = 3
"""Servers that keep a copy of each stream, also where there are five."""

ACCOUNTS: Final = "accounts.conf"
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - keys and TLS guard it
_MAX_PAYLOAD_BYTES: Final = 1024 * 1024
_HANDSHAKE_S: Final = 5


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a cluster."""

    name: str
    host: str
    """The name or address by which clients and the other servers reach it."""
    port: int
    cluster_port: int

    def url(self, *, tls: bool) -> str:
        """Return where clients connect."""
        return server_url(self.host, self.port, "tls" if tls else "nats")


class ClusterPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What ``cluster.json`` holds: no secrets."""

    name: str
    nodes: tuple[ClusterNode, ...]
    tls: bool = True

    @property
    def urls(self) -> str:
        """Where clients connect: every server, so that one may be down."""
        return ",".join(node.url(tls=self.tls) for node in self.nodes)


def make_plan(
    hosts: Sequence[str],
    *,
    name: str = "threadbus",
    port: int = DEFAULT_PORT,
    cluster_port: int = CLUSTER_PORT,
    tls: bool = True,
) -> ClusterPlan:
    """Name the servers n1, n2, … and give each its ports.

    Args:
        hosts: one for each server; the second server of a host gets the next ports.
        name: what the cluster is called; servers of other names are not let in.
        port: where clients connect.
        cluster_port: where the servers connect to one another.
        tls: whether everything goes over TLS.

    Raises:
        InvalidServerSettingError: a value cannot be used; says what may be.
    """
    if len(hosts) not in SIZES:
        raise InvalidServerSettingError(
            "host", f"{len(hosts)} servers", f"{' or '.join(map(str, SIZES))} servers"
        )
    if not name.replace("-", "").replace("_", "").isalnum() or len(name) > 63:
        raise InvalidServerSettingError("name", repr(name), "1 to 63 letters, digits, - and _")
    seen: Counter[str] = Counter()
    nodes: list[ClusterNode] = []
    for number, host in enumerate(hosts, 1):
        ports = port + seen[host], cluster_port + seen[host]
        seen[host] += 1
        for one in ports:
            check_address(host, one)
        if 0 in ports:
            raise InvalidServerSettingError("port", "0", "from 1 to 65,535: others must know it")
        nodes.append(
            ClusterNode(name=f"n{number}", host=host, port=ports[0], cluster_port=ports[1])
        )
    taken = Counter((n.host, p) for n in nodes for p in (n.port, n.cluster_port))
    if twice := [f"{host}:{one}" for (host, one), count in taken.items() if count > 1]:
        raise InvalidServerSettingError("cluster-port", twice[0], "a port of its own")
    return ClusterPlan(name=name, nodes=tuple(nodes), tls=tls)


def render_node(plan: ClusterPlan, node: ClusterNode, password: str) -> bytes:
    """Return the configuration file of one server.

    Args:
        plan: the cluster.
        node: which server.
        password: what servers show one another; without TLS it goes over the wire.
    """
    listens = _listens(node.host)
    advertised = {} if listens == node.host else {"client_advertise": _joined(node.host, node.port)}
    pair = {"cert_file": "tls/node.pem", "key_file": "tls/node.key"}
    cluster: dict[str, Any] = {
        "name": plan.name,
        "host": listens,
        "port": node.cluster_port,
        "cluster_advertise": _joined(node.host, node.cluster_port),
        "authorization": {"user": "server", "password": password, "timeout": _HANDSHAKE_S},
        "routes": [
            f"nats://server:{password}@{_joined(other.host, other.cluster_port)}"
            for other in plan.nodes
            if other.name != node.name
        ],
    }
    config: dict[str, Any] = {
        "server_name": node.name,
        "host": listens,
        "port": node.port,
        **advertised,
        "max_payload": _MAX_PAYLOAD_BYTES,
        # As for `bus up`: see threadbus.bus.server.settings.
        "disable_sublist_cache": True,
        "jetstream": {
            "store_dir": "jetstream",
            "limits": {"default_max_consumers": MAX_CONSUMERS},
        },
        "cluster": cluster,
    }
    if plan.tls:
        config["tls"] = {**pair, "timeout": _HANDSHAKE_S}
        cluster["tls"] = {
            **pair,
            "ca_file": "tls/ca.pem",
            # A server shows a certificate to those that it connects to, and asks them for one.
            "verify": True,
            "timeout": _HANDSHAKE_S,
        }
    text = msgspec.json.format(msgspec.json.encode(config), indent=2)
    return text + b'\ninclude "%b"\n' % ACCOUNTS.encode()


def _listens(host: str) -> str:
    """Return the address to listen on: the own one where it is one, else every one."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return _ANY_ADDRESS


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
