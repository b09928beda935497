"""What the servers of a cluster say of themselves, beside what they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from threadbus.bus._nats.system import SystemAnswer
from threadbus.bus.cluster.layout import ClusterPlan
from threadbus.bus.cluster.served import days_left

SOON_DAYS: Final = 7
"""What ends so soon is a problem, as for `bus doctor`."""

NOTE_DAYS: Final = 30
"""What ends so soon is told."""


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One server."""

    name: Annotated[str, msgspec.Meta(description="n1, n2, …")]
    url: Annotated[str, msgspec.Meta(description="where clients connect")]
    is_running: Annotated[bool, msgspec.Meta(description="whether it answers")] = False
    version: Annotated[str, msgspec.Meta(description="of its nats-server")] = ""
    has_config: Annotated[
        bool, msgspec.Meta(description="whether it runs with what its folder here says")
    ] = False
    connections: Annotated[int, msgspec.Meta(description="clients")] = 0
    routes: Annotated[int, msgspec.Meta(description="connections to other servers")] = 0
    is_leader: Annotated[
        bool, msgspec.Meta(description="whether it decides where streams are kept")
    ] = False
    certificate_days: Annotated[
        int | None,
        msgspec.Meta(description="whole days that its certificate holds; null where none is seen"),
    ] = None
    problem: Annotated[str, msgspec.Meta(description="what is wrong; empty where nothing is")] = ""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster."""

    name: Annotated[str, msgspec.Meta(description="what the cluster is called")]
    nodes: tuple[NodeStatus, ...]
    has_leader: Annotated[
        bool, msgspec.Meta(description="whether streams can be made and moved")
    ] = False

    @property
    def certificate_days(self) -> int | None:
        """How many whole days the certificate holds that ends first; None where none is seen."""
        left = [node.certificate_days for node in self.nodes if node.certificate_days is not None]
        return min(left, default=None)

    @property
    def is_healthy(self) -> bool:
        """Whether every server answers and runs with what it should."""
        return self.has_leader and not any(node.problem for node in self.nodes)


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """What a renewal of certificates did."""

    is_renewed: bool
    """Whether there are new ones in the folder of the cluster."""
    cluster: ClusterStatus | None = None
    """How it is with them; None where no server was told."""


def make_status(
    plan: ClusterPlan,
    answers: Sequence[SystemAnswer],
    digests: Mapping[str, str],
    failures: Mapping[str, str],
    certificates: Mapping[str, tuple[bytes, bytes]],
) -> ClusterStatus:
    """Put together what is known.

    Args:
        plan: what there should be.
        answers: what the servers say.
        digests: of each node's configuration, as its folder here has it.
        failures: why a server did not reload, by its name.
        certificates: what a server shows, and what its folder here has, by its name.
    """
    found = {answer.server.name: answer for answer in answers}
    leaders = leaders_of(answers)
    nodes: list[NodeStatus] = []
    for node in plan.nodes:
        url = node.url(tls=plan.tls)
        answer = found.get(node.name)
        if answer is None:
            nodes.append(
                NodeStatus(name=node.name, url=url, problem=f"does not answer: start {node.name}")
            )
            continue
        has_config = answer.data.config_digest == digests[node.name]
        problem = failures.get(node.name, "")
        if not problem and not has_config:
            problem = (
                f"runs with another configuration: bring {node.name}/ to {node.host}, "
                "then `bus cluster sync`"
            )
        shown, own = certificates.get(node.name, (b"", b""))
        left = days_left(shown)
        if not problem:
            problem = _about_certificate(node.name, left, is_own=shown == own or not own)
        nodes.append(
            NodeStatus(
                name=node.name,
                url=url,
                is_running=True,
                version=answer.data.version,
                has_config=has_config,
                connections=answer.data.connections,
                routes=answer.data.routes,
                is_leader=node.name in leaders,
                certificate_days=left,
                problem=problem,
            )
        )
    return ClusterStatus(name=plan.name, nodes=tuple(nodes), has_leader=bool(leaders))


def _about_certificate(name: str, left: int | None, *, is_own: bool) -> str:
    if left is None:
        return ""
    if not is_own:
        return f"shows another certificate than {name}/tls has: `bus cluster renew`"
    if left <= SOON_DAYS:
        return f"its certificate ends in {left} days: `bus cluster renew`"
    return ""


def leaders_of(answers: Sequence[SystemAnswer]) -> set[str]:
    """Return who decides where streams are kept, as the servers see it; empty if nobody does."""
    metas = [answer.data.jetstream.meta for answer in answers]
    return {meta.leader for meta in metas if meta is not None and meta.leader}
