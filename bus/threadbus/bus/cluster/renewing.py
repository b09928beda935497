"""New certificates for the servers of a cluster, before the old ones end.

Keys stay, so that each file alone fits what was there before: a command that is killed leaves some
servers with a new certificate and some with the old one, and both are good. The authority's own
certificate is renewed in time too, with its key: whoever has the old ``ca.pem`` goes on with it
until it ends.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

from threadbus.bus.cluster.layout import ClusterPlan
from threadbus.bus.cluster.served import certificate_in, days_left
from threadbus.bus.cluster_errors import CertificatesError

RENEWED: Final = ("tls/ca.pem", "tls/node.pem", "tls/node.key")
"""Files of a server that may be new, in the order in which they are brought to it."""


def renew_certificates(folder: Path, plan: ClusterPlan, within: timedelta | None) -> bool:
    """Write new certificates into the folder of a cluster.

    Args:
        folder: the cluster's.
        plan: which servers.
        within: only where one of them ends so soon.

    Returns:
        Whether there are new ones.

    Raises:
        CertificatesError: they cannot be made.
    """
    if not plan.tls:
        raise CertificatesError("the cluster runs without TLS, so it has none")
    if within is not None:
        left = [days_left(certificate_in(folder / node.name)) for node in plan.nodes]
        if all(days is not None and days >= within.days for days in left):
            return False
    try:
        from threadbus.bus.cluster.certificates import Authority
    except ImportError as error:
        raise CertificatesError("install threadbus[tls]") from error
    try:
        authority = Authority.load(folder / "tls")
        authority.write(folder / "tls")
        for node in plan.nodes:
            authority.issue(folder / node.name / "tls", node.name, node.host)
    except OSError as error:
        raise CertificatesError(f"{error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise CertificatesError(f"{folder / 'tls'}: {error}") from error
    return True
