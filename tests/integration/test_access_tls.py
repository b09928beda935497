"""TLS: the server shows a certificate, and with mutual TLS the client does as well."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.access import secured
from tests.support.certificates import Authority
from threadbus.bus import (
    BusSettings,
    ConnectError,
    InvalidSettingError,
    connect,
    server,
    server_errors,
)


@pytest.mark.parametrize("mutual", [False, True])
async def test_the_bus_runs_over_tls(tmp_path: Path, mutual: bool) -> None:
    """With the right certificates it connects; with none, or of somebody else, it does not."""
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    cert, key = ours.issue("server")
    limits = server.ServerSettings(tls_cert=cert, tls_key=key, tls_ca=ours.path if mutual else None)
    async with secured(tmp_path, settings=limits) as made:
        assert made.server.url.startswith("tls://")
        nkey = str(made.folder.key_path("operator"))
        own_cert, own_key = map(str, ours.issue("client")) if mutual else ("", "")
        good = BusSettings(
            url=made.server.url,
            nkey=nkey,
            tls_ca=str(ours.path),
            tls_cert=own_cert,
            tls_key=own_key,
        )
        async with connect(good, name="operator") as bus:
            assert (await bus.facts()).version
        bad_cert, bad_key = map(str, theirs.issue("stranger"))
        refused = [BusSettings(url=made.server.url, nkey=nkey, tls_ca=str(theirs.path))]
        if mutual:
            refused.append(BusSettings(url=made.server.url, nkey=nkey, tls_ca=str(ours.path)))
            refused.append(
                BusSettings(
                    url=made.server.url,
                    nkey=nkey,
                    tls_ca=str(ours.path),
                    tls_cert=bad_cert,
                    tls_key=bad_key,
                )
            )
        for settings in refused:
            settings = replace(settings, connect_timeout=timedelta(seconds=2))
            with pytest.raises(ConnectError) as refusal:
                async with connect(settings, name="operator"):
                    pass
            print(refusal.value)


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """The error says which flag and which file."""
    nothing, text = tmp_path / "nothing.pem", tmp_path / "text.pem"
    text.write_text("no certificate")
    for settings, flag in (
        (BusSettings(tls_ca=str(nothing)), "--tls-ca"),
        (BusSettings(tls_ca=str(text)), "--tls-ca"),
        (BusSettings(tls_cert=str(text)), "--tls-key"),
        (BusSettings(tls_cert=str(text), tls_key=str(text)), "--tls-cert"),
    ):
        with pytest.raises(InvalidSettingError, match=flag):
            async with connect(settings, name="web"):
                pass
    with pytest.raises(server_errors.InvalidServerSettingError, match="tls_key"):
        server.ServerSettings(tls_cert=text)
