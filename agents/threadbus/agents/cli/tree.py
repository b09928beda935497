"""The whole command tree: importing the modules below registers their commands."""

from threadbus.agents.cli import (
    asking,
    demonstrating,
    doctor,
    finding,
    looking,
    registering,
    running,
    settings,
    starting,
    status,
    talking,
)
from threadbus.agents.cli.app import app, main

__all__ = [
    "app",
    "asking",
    "demonstrating",
    "doctor",
    "finding",
    "looking",
    "main",
    "registering",
    "running",
    "settings",
    "starting",
    "status",
    "talking",
]
