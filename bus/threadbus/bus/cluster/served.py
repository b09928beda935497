"""Which certificate each server shows: it may be another one than its folder has."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from threadbus.bus._nats.expiry import certificate_end
from threadbus.bus.cluster.layout import ClusterNode, ClusterPlan

_PATIENCE_S: Final = 5.0
_INFO_BYTES: Final = 64 * 1024
_DAY_NS: Final = 86_400 * 1_000_000_000


async def served_certificates(plan: ClusterPlan) -> Mapping[str, bytes]:
    """Return the certificate that each server shows to clients; who shows none is left out.

    Cancellation: safe.
    """
    if not plan.tls:
        return {}
    shown = await asyncio.gather(*(_served(node) for node in plan.nodes))
    return {node.name: der for node, der in zip(plan.nodes, shown, strict=True) if der}


async def _served(node: ClusterNode) -> bytes:
    # It is only looked at, also where it has ended or somebody else vouches for it; nothing is
    # said to who shows it.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_connection(node.host, node.port, limit=_INFO_BYTES)
            try:
                await reader.readline()
                await writer.start_tls(context)
                secured: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
                return (secured.getpeercert(binary_form=True) if secured else None) or b""
            finally:
                writer.transport.abort()
    except (OSError, ValueError, TimeoutError):
        return b""


def certificate_in(folder: Path) -> bytes:
    """Return the certificate in the folder of a server; empty where there is none."""
    try:
        return ssl.PEM_cert_to_DER_cert((folder / "tls" / "node.pem").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return b""


def days_left(der: bytes) -> int | None:
    """Return how many whole days a certificate holds, below 0 where it has ended."""
    end = certificate_end(der)
    return (end - time.time_ns()) // _DAY_NS if end else None
