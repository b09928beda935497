"""A cluster of one's own: a folder for each server, made together, and kept alike.

:class:`ClusterFolder` lays a cluster out (:meth:`~ClusterFolder.init`), brings a change of the
identities to every server (:meth:`~ClusterFolder.sync`), gives them new certificates
(:meth:`~ClusterFolder.renew`), and looks at them (:meth:`~ClusterFolder.status`).
"""

from threadbus.bus.cluster.copies import set_copies
from threadbus.bus.cluster.folder import ClusterFolder, check_node_folder
from threadbus.bus.cluster.layout import (
    CLUSTER_PORT,
    SIZES,
    ClusterNode,
    ClusterPlan,
    make_plan,
)
from threadbus.bus.cluster.status import NOTE_DAYS, ClusterStatus, NodeStatus, Renewal

__all__ = [
    "CLUSTER_PORT",
    "NOTE_DAYS",
    "SIZES",
    "ClusterFolder",
    "ClusterNode",
    "ClusterPlan",
    "ClusterStatus",
    "NodeStatus",
    "Renewal",
    "check_node_folder",
    "make_plan",
    "set_copies",
]
