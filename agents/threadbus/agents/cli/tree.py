"""The whole command tree: importing the modules below registers their commands."""

from threadbus.agents.cli import (
    asking,
    auth,
    cluster,
    demonstrating,
    doctor,
    evaluating,
    finding,
    guarding,
    limiting,
    looking,
    metrics,
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
    "auth",
    "cluster",
    "demonstrating",
    "doctor",
    "evaluating",
    "finding",
    "guarding",
    "limiting",
    "looking",
    "main",
    "metrics",
    "registering",
    "running",
    "settings",
    "starting",
    "status",
    "talking",
]
