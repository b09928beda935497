"""Backup and restore of everything that is stored: the log, waiting mentions, artifacts, cards.

:func:`backup` writes a folder while everything goes on, :func:`check` says whether a folder is
whole and unchanged, :func:`restore` makes the streams of it on a server that has none. What the
folder holds is written in :mod:`threadbus.bus.backup.folder`.
"""

from threadbus.bus.backup.folder import BACKUP_FORMAT, BackedUp, Manifest, check
from threadbus.bus.backup.making import DEFAULT_OVERLAP, backup
from threadbus.bus.backup.restoring import restore

__all__ = [
    "BACKUP_FORMAT",
    "DEFAULT_OVERLAP",
    "BackedUp",
    "Manifest",
    "backup",
    "check",
    "restore",
]
