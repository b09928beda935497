"""The playbook server: runs and tests without a key, through the very same client.

async with PlaybookServer("playbook.toml") as server:
    settings = ModelSettings(base_url=server.base_url, model=PLAYBOOK)

As its own process: ``python -m threadbus.agents.model.playbook FILE --port 8000``.
docs/playbooks.md explains the file format.
"""

from threadbus.agents.model.playbook.book import (
    CallPlay,
    Defaults,
    FailPlay,
    Play,
    Playbook,
    UsagePlay,
    load_playbook,
    parse_playbook,
)
from threadbus.agents.model.playbook.server import PlaybookServer

__all__ = [
    "CallPlay",
    "Defaults",
    "FailPlay",
    "Play",
    "Playbook",
    "PlaybookServer",
    "UsagePlay",
    "load_playbook",
    "parse_playbook",
]
