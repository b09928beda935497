#!/opt/threadbus/bin/python

"""The keys of ops/compose.yaml: made once, and each given to the one service that it is for.

    compose-keys                      what `docker compose up` runs
    compose-keys name NAME            both gateways act for NAME (ops/compose/token.sh)
    compose-keys add-agent NAME …     any command of `bus auth`, and then the same

All of them are in /auth, which no other service sees. /keys has a volume for each service, with its
own key in it, and one with the accounts for NATS, which takes in a change at SIGHUP.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from threadbus.bus import access

AUTH: Final = Path("/auth")
KEYS: Final = Path("/keys")
READY: Final = AUTH / "compose.ready"
AGENTS: Final = (
    "planner", "critique", "answer-finding", "web", "document", "coding",
    # A person at this machine: its key is fetched by `docker compose cp`.
    "user",
)  # fmt: skip
GATEWAYS: Final = {"mcp": (), "a2a": ("a2a-push",)}
OBSERVERS: Final = {"exporter": access.Extra.POSITIONS, "metrics": access.Extra.WAITING}
STREAMS: Final = "streams"
"""The service that makes the streams, with the operator's key."""


async def make(folder: access.AccessFolder) -> None:
    """Add everybody, once; who is taken out later stays out."""
    if READY.exists():
        return
    if not (AUTH / "access.json").exists():
        await folder.init()
    (tenant,) = folder.tenants()
    for name in AGENTS:
        if tenant.find(name) is None:
            await folder.add(name, access.Role.AGENT)
    for name, acts_for in GATEWAYS.items():
        if tenant.find(name) is None:
            await folder.add(name, access.Role.GATEWAY, acts_for=acts_for)
    for name, extra in OBSERVERS.items():
        if tenant.find(name) is None:
            await folder.add(name, access.Role.OBSERVER, can=[extra])
    READY.touch(mode=0o600)


def put(source: Path, target: Path) -> None:
    """Replace a file at once; it keeps mode 0600. Without a source there is none."""
    if not source.exists():
        target.unlink(missing_ok=True)
        return
    beside = target.with_name(f".{target.name}")
    shutil.copy(source, beside)
    beside.replace(target)


async def main(words: list[str]) -> int:
    """Do what is asked, then hand everything out."""
    AUTH.chmod(0o700)
    folder = access.AccessFolder(AUTH)
    await make(folder)
    code = 0
    if words[:1] == ["name"] and len(words) == 2:
        for gateway in GATEWAYS:
            await folder.act_for(gateway, words[1:])
    elif words:
        command = ["bus", "auth", *words, "--folder", str(AUTH)]
        code = await asyncio.to_thread(subprocess.call, command)
        sys.stderr.write("NATS takes it in by `docker compose kill --signal HUP nats`\n")
    else:
        # The table of roles may be that of a newer release.
        await folder.rewrite()
    for volume in KEYS.iterdir():
        if volume.name == "accounts":
            put(folder.config, volume / "accounts.conf")
        else:
            whose = "operator" if volume.name == STREAMS else volume.name
            put(folder.key_path(whose), volume / "nkey")
    return code


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1:])))
    except access.AccessError as error:
        sys.exit(f"compose-keys: {error}")
