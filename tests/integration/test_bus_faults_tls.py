"""A server that hangs up after the handshake: said in time, however often it is tried."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.access import secured
from tests.support.certificates import Authority
from threadbus.bus import BusSettings, NoServerError, connect, server


async def test_a_certificate_that_is_not_taken_is_told_in_time(tmp_path: Path) -> None:
    """Whenever the deadline comes, also while an attempt is given up, it is one."""
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    cert, key = ours.issue("server")
    bad_cert, bad_key = map(str, theirs.issue("stranger"))
    limits = server.ServerSettings(tls_cert=cert, tls_key=key, tls_ca=ours.path)
    async with secured(tmp_path, settings=limits) as made, asyncio.timeout(60):
        for number in range(12):
            settings = BusSettings(
                url=made.server.url,
                nkey=str(made.folder.key_path("operator")),
                tls_ca=str(ours.path),
                tls_cert=bad_cert,
                tls_key=bad_key,
                connect_timeout=timedelta(milliseconds=300 + 17 * number),
            )
            # The server hangs up at once, so its word may be lost with what we still sent it.
            with pytest.raises(NoServerError, match=r"unknown ca|reset by peer"):
                async with connect(settings, name="operator"):
                    pass
