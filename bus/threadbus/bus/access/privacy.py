"""Whether a secret is for nobody but who reads it.

systemd (from 255 on) hands a service its credentials as files of root with an access control list
that names the service's user. The group bits of their mode are then the mask of the list, which is
not what a group may do: so the list is read.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from typing import Final

_LIST: Final = "system.posix_acl_access"
_HEADER: Final = struct.Struct("<I")
_ENTRY: Final = struct.Struct("<HHI")
_VERSION: Final = 2
_OWNER: Final = 0x01
_USER: Final = 0x02
_MASK: Final = 0x10


def others_may_use(fd: int) -> bool:
    """Whether somebody else than its owner and us may do anything with an open file.

    The superuser is not looked at: nothing is kept from it.
    """
    mode = os.fstat(fd).st_mode
    if os.name != "posix" or not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return False
    if mode & stat.S_IRWXO or sys.platform != "linux":
        return True
    try:
        entries = os.getxattr(fd, _LIST)
    except OSError:
        return True
    return _gives_to_others(entries)


def _gives_to_others(entries: bytes) -> bool:
    body = entries[_HEADER.size :]
    if len(entries) < _HEADER.size or len(body) % _ENTRY.size:
        return True
    if _HEADER.unpack_from(entries)[0] != _VERSION:
        return True
    us = os.geteuid()
    for tag, allowed, who in _ENTRY.iter_unpack(body):
        is_ours = tag in {_OWNER, _MASK} or (tag == _USER and who == us)
        if allowed and not is_ours:
            return True
    return False
