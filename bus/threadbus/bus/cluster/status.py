"""What the servers of a cluster say of themselves, beside what they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from threadbus.bus._nats.system import SystemAnswer
from threadbus.bus.cluster.layout import ClusterPlan


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
    problem: Annotated[str, msgspec.Meta(description="what is wrong; empty where nothing is")] = ""


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster."""

    name: Annotated[str, msgspec.Meta(description="what the cluster is called")]
    nodes: tuple[NodeStatus, ...]
    has_leader: Annotated[
        bool, msgspec.Meta(description="whether streams can be made and moved")
    ] = False

    @property
    def is_healthy(self) -> bool:
        """Whether every server answers and runs with what it should."""
        return self.has_leader and not any(node.problem for node in self.nodes)


def make_status(
    plan: ClusterPlan,
    answers: Sequence[SystemAnswer],
    digests: Mapping[str, str],
    failures: Mapping[str, str],
) -> ClusterStatus:
    """Put together what is known.

    Args:
        plan: what there should be.
        answers: what the servers say.
        digests: of each node's configuration, as its folder here has it.
        failures: why a server did not reload, by its name.
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
                problem=problem,
            )
        )
    return ClusterStatus(name=plan.name, nodes=tuple(nodes), has_leader=bool(leaders))


def leaders_of(answers: Sequence[SystemAnswer]) -> set[str]:
    """Return who decides where streams are kept, as the servers see it; empty if nobody does."""
    metas = [answer.data.jetstream.meta for answer in answers]
    return {meta.leader for meta in metas if meta is not None and meta.leader}
