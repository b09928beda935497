"""Access control: who may do what, enforced by the NATS server.

:mod:`threadbus.bus.roles` is the table of what each role may do, :class:`AccessFolder` keeps the
identities and their nkeys in files and writes the part of the server's configuration that says so.
"""

from threadbus.bus.access.checking import check_config, reload_servers
from threadbus.bus.access.folder import AccessFolder, default_access_folder
from threadbus.bus.access.identities import Identity, Muted, Tenant
from threadbus.bus.access.privacy import others_may_use
from threadbus.bus.access_errors import AccessError
from threadbus.bus.roles import (
    ANYBODY,
    EXTRAS,
    ROLES,
    Extra,
    Permissions,
    Role,
    RoleRow,
    permissions_of,
    who_may,
)

__all__ = [
    "ANYBODY",
    "EXTRAS",
    "ROLES",
    "AccessError",
    "AccessFolder",
    "Extra",
    "Identity",
    "Muted",
    "Permissions",
    "Role",
    "RoleRow",
    "Tenant",
    "check_config",
    "default_access_folder",
    "others_may_use",
    "permissions_of",
    "reload_servers",
    "who_may",
]
