"""The layout of a cluster: its ports, its files and what is refused."""

from __future__ import annotations

import builtins
import json
import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from threadbus.bus import cluster
from threadbus.bus.access_errors import AccessConfigError
from threadbus.bus.cluster.certificates import Authority
from threadbus.bus.cluster.layout import render_node
from threadbus.bus.cluster_errors import (
    CertificatesError,
    ClusterCopyError,
    ClusterError,
    ClusterFolderError,
)
from threadbus.bus.errors import BusError
from threadbus.bus.server_errors import InvalidServerSettingError

LOCAL = ["127.0.0.1"] * 3
_PEMS = ("tls/ca.pem", "n1/tls/node.pem")


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_servers_of_one_host_get_ports_of_their_own() -> None:
    """The second of a host gets the next ports; other hosts begin anew."""
    plan = cluster.make_plan(["a", "b", "a"], port=10, cluster_port=20)
    assert [(n.name, n.port, n.cluster_port) for n in plan.nodes] == [
        ("n1", 10, 20),
        ("n2", 10, 20),
        ("n3", 11, 21),
    ]
    assert plan.urls == "tls://a:10,tls://b:10,tls://a:11"


@pytest.mark.parametrize(
    ("hosts", "more", "said"),
    [
        (["a"], {}, "3 or 5 servers"),
        (["a"] * 4, {}, "3 or 5 servers"),
        (["a b", "b", "c"], {}, "host name"),
        (LOCAL, {"port": 0}, "from 1 to 65,535"),
        (LOCAL, {"port": 65_535}, "65,535"),
        (LOCAL, {"cluster_port": 4223}, "a port of its own"),
        (LOCAL, {"name": 'x"\n'}, "letters"),
    ],
)
def test_what_cannot_be_a_cluster_is_refused(
    hosts: list[str], more: dict[str, Any], said: str
) -> None:
    """The error says what may be."""
    with pytest.raises(InvalidServerSettingError, match=said):
        cluster.make_plan(hosts, **more)


def test_a_server_behind_a_name_listens_everywhere_and_tells_its_name() -> None:
    """Clients and servers are told the name by which it is reached, not the address."""
    plan = cluster.make_plan(["a.example", "b.example", "c.example"])
    text, _, include = render_node(plan, plan.nodes[0], "secret").rpartition(b"\ninclude")
    config = json.loads(text)
    assert include == b' "accounts.conf"\n'
    assert config["host"] == "0.0.0.0"  # noqa: S104 - what is rendered
    assert config["client_advertise"] == "a.example:4222"
    assert config["cluster"]["cluster_advertise"] == "a.example:6222"
    assert config["cluster"]["routes"] == [
        "nats://server:secret@b.example:6222",
        "nats://server:secret@c.example:6222",
    ]
    assert config["cluster"]["tls"]["verify"] is True


def test_without_tls_there_is_none() -> None:
    """Neither for clients nor between servers."""
    plan = cluster.make_plan(LOCAL, tls=False)
    assert b"tls" not in render_node(plan, plan.nodes[0], "secret")
    assert plan.urls.startswith("nats://")


async def test_every_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """Folders have mode 0700 and files 0600; no server gets a key of an identity."""
    where = cluster.ClusterFolder(tmp_path / "team")
    await where.init(cluster.make_plan(LOCAL))
    modes = {oct(path.stat().st_mode & 0o777) for path in where.path.rglob("*")}
    assert modes == {"0o700", "0o600"}
    assert sorted(path.name for path in where.node_path("n1").rglob("*")) == [
        "accounts.conf",
        "ca.pem",
        "node.key",
        "node.pem",
        "server.conf",
        "tls",
    ]


async def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    """A folder with something in it is left as it is."""
    (tmp_path / "mine").write_text("x", encoding="utf-8")
    with pytest.raises(ClusterFolderError, match="something in it already"):
        await cluster.ClusterFolder(tmp_path).init(cluster.make_plan(LOCAL))
    assert _names(tmp_path) == ["mine"]


async def test_what_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without threadbus[tls] the error says what to install, and no folder is there."""
    real = builtins.__import__

    def fail(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "threadbus.bus.cluster.certificates":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fail)
    where = cluster.ClusterFolder(tmp_path / "team")
    with pytest.raises(CertificatesError, match=r"threadbus\[tls\]"):
        await where.init(cluster.make_plan(LOCAL))
    assert _names(tmp_path) == []
    await where.init(cluster.make_plan(LOCAL, tls=False))
    assert where.plan().tls is False


async def test_a_folder_without_a_cluster_is_told(tmp_path: Path) -> None:
    """Each command says how to get what it needs."""
    where = cluster.ClusterFolder(tmp_path)
    with pytest.raises(ClusterFolderError, match="bus cluster init"):
        await where.status()
    with pytest.raises(ClusterFolderError, match="CLUSTER/n1"):
        cluster.check_node_folder(tmp_path)
    (tmp_path / "cluster.json").write_text("{", encoding="utf-8")
    with pytest.raises(ClusterFolderError, match=r"cluster\.json"):
        where.plan()


async def test_a_spoilt_configuration_is_found_before_any_server_has_it(tmp_path: Path) -> None:
    """What nats-server would not take is refused with what it says."""
    where = cluster.ClusterFolder(tmp_path / "team")
    await where.init(cluster.make_plan(LOCAL, tls=False))
    (where.node_path("n2") / "server.conf").write_text("port: x", encoding="utf-8")
    with pytest.raises(AccessConfigError, match="n2"):
        await where.sync()


async def test_a_copy_that_fails_is_told(tmp_path: Path) -> None:
    """The command, its end and what it said stand in the error; no shell looks at it."""
    where = cluster.ClusterFolder(tmp_path / "team")
    await where.init(cluster.make_plan(LOCAL, tls=False))
    with pytest.raises(ClusterCopyError, match=r"n1.*ended with [12].*x; true"):
        await where.sync("ls '{file}' 'x; true'")
    with pytest.raises(ClusterCopyError, match="cannot be run"):
        await where.sync("no-such-program-here")


@pytest.mark.parametrize(
    "error",
    [
        ClusterFolderError("team", "is a file"),
        ClusterCopyError("n1", "scp", "ended with 1"),
        CertificatesError("no library"),
    ],
)
def test_errors_pickle_and_say_what_they_know(error: ClusterError) -> None:
    """Each is a BusError, survives pickling and shows its attributes."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert isinstance(again, BusError)
    assert str(again) == str(error)
    assert all(str(argument) in str(error) for argument in error.args)


async def test_an_authority_that_ends_is_renewed_with_its_key(tmp_path: Path) -> None:
    """What it vouched for is good by the new certificate, and what it vouches for by the old."""
    folder = cluster.ClusterFolder(tmp_path / "team")
    await folder.init(cluster.make_plan(LOCAL))
    old = Authority("threadbus cluster threadbus", life=timedelta(days=60))
    old.write(folder.path / "tls")
    for node in ("n1", "n2", "n3"):
        old.issue(folder.path / node / "tls", node, "127.0.0.1", life=timedelta(days=50))
    before = {name: _certificate(folder.path / name) for name in _PEMS}

    assert (await folder.renew(within=timedelta(days=40), reload=False)).is_renewed is False
    assert (await folder.renew(within=timedelta(days=55), reload=False)).is_renewed is True

    after = {name: _certificate(folder.path / name) for name in _PEMS}
    authority, leaf = _PEMS
    assert after[authority].public_key() == before[authority].public_key()
    for certificates in (before, after):
        certificates[leaf].verify_directly_issued_by(after[authority])
        certificates[leaf].verify_directly_issued_by(before[authority])
    assert after[leaf].not_valid_after_utc - before[leaf].not_valid_after_utc > timedelta(days=700)
    assert after[authority].not_valid_after_utc > after[leaf].not_valid_after_utc


async def test_what_cannot_be_renewed_says_why(tmp_path: Path) -> None:
    """Without TLS, without the authority's key, with another's, and with a command that cannot."""
    plain = cluster.ClusterFolder(tmp_path / "plain")
    await plain.init(cluster.make_plan(LOCAL, tls=False))
    with pytest.raises(CertificatesError, match="without TLS"):
        await plain.renew()
    folder = cluster.ClusterFolder(tmp_path / "team")
    await folder.init(cluster.make_plan(LOCAL))
    with pytest.raises(CertificatesError, match=r"needs \{path\} in it"):
        await folder.renew("scp {file} {host}:team/{node}/")
    key = folder.path / "tls" / "ca.key"
    key.write_bytes((folder.path / "n1" / "tls" / "node.key").read_bytes())
    with pytest.raises(CertificatesError, match=r"ca\.key is not the key of ca\.pem"):
        await folder.renew(reload=False)
    key.unlink()
    with pytest.raises(CertificatesError, match="No such file"):
        await folder.renew(reload=False)


def _certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())
