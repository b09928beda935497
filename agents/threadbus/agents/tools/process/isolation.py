"""What the kernel can take away from a process before untrusted code runs in it.

Every function tries one mechanism and returns whether it holds, so that the caller can say what
is missing; none raises because the kernel lacks something. All of it works without privileges:

- namespaces (own users, processes, network, IPC): no interface, no sight of other processes;
- Landlock: files outside the given folders cannot be read or written;
- seccomp: no sockets, no new namespaces, no look into other processes;
- resource limits.

Standard library only: this runs in a bare interpreter. Elsewhere than on Linux only the resource
limits hold.
"""

# Without pathlib: this starts once for every command.
# ruff: noqa: PTH123

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import stat
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Final

LINUX: Final = sys.platform == "linux"
NOBODY: Final = 65534
"""The user and group that hold no files."""

_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWPID: Final = 0x20000000
_CLONE_NEWNET: Final = 0x40000000
_CLONE_NEWIPC: Final = 0x08000000

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_SET_SECUREBITS: Final = 28
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
# SECBIT_NOROOT and its lock: user 0 gets no capabilities by running a program.
_NO_ROOT_BITS: Final = 0b11


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, *values: int) -> bool:
    if not LINUX:
        return False
    padded = [*values, 0, 0, 0, 0][:4]
    return int(_libc().prctl(option, *(ctypes.c_ulong(value) for value in padded))) == 0


def _syscall(number: int, *values: int | ctypes.c_void_p | None) -> int:
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    return int(_libc().syscall(ctypes.c_long(number), *converted))


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that forked it dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def prefer_as_memory_victim() -> None:
    """Let the kernel choose this process, never the agent, when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def drop_root(needed: Iterable[str], owned: Iterable[str]) -> bool:
    """Become the user that holds no files, when started as root.

    Args:
        needed: Paths that must stay readable; if one is not, the user stays (an interpreter
            under root's home, say).
        owned: Paths that are given to the new user.

    Returns:
        Whether this process is not root.
    """
    if os.geteuid() != 0:
        return True
    try:
        os.setgroups([])
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
        fits = all(os.access(path, os.R_OK, effective_ids=True) for path in needed)
        os.seteuid(0)
        os.setegid(0)
        if not fits:
            return False
        for path in owned:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:
        return os.geteuid() != 0
    # A change of user makes /proc/self belong to root, and the maps below could not be written.
    _prctl(_PR_SET_DUMPABLE, 1)
    return True


def enter_namespaces() -> bool:
    """Give this process and its future children users, processes, network and IPC of their own.

    The next child is process 1 of the new namespace: when it ends, the kernel kills all others.
    """
    if not LINUX:
        return False
    user, group = os.geteuid(), os.getegid()
    flags = _CLONE_NEWUSER | _CLONE_NEWPID | _CLONE_NEWNET | _CLONE_NEWIPC
    if int(_libc().unshare(flags)) != 0:
        return False
    # Never user 0 inside: a program run by user 0 would hold every capability of the namespace.
    maps = {
        "setgroups": "deny",
        "uid_map": f"{user or NOBODY} {user} 1",
        "gid_map": f"{group or NOBODY} {group} 1",
    }
    for name, value in maps.items():
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(value)
        except OSError:
            # Unmapped users are still nobody inside, which is all that is needed.
            continue
    return True


def forbid_privileges() -> None:
    """Make sure that no program run from here on has more rights than this process."""
    if os.geteuid() == 0:
        _prctl(_PR_SET_SECUREBITS, _NO_ROOT_BITS)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def set_limits(limits: Iterable[tuple[int, int, int]]) -> None:
    """Set (resource, soft, hard) limits, each at most what the hard limit is now."""
    for which, soft, hard in limits:
        ceiling = resource.getrlimit(which)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(which, (soft, hard))


# --- Landlock ---------------------------------------------------------------------------------

_LANDLOCK_CREATE: Final = 444
_LANDLOCK_ADD_RULE: Final = 445
_LANDLOCK_RESTRICT: Final = 446
_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_REFER: Final = 1 << 13
_TRUNCATE: Final = 1 << 14
_IOCTL_DEVICE: Final = 1 << 15
_FILE_RIGHTS: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
# Bind and connect by TCP; abstract UNIX sockets and signals across the border.
_NETWORK_RIGHTS: Final = 0b11
_SCOPES: Final = 0b11


def restrict_files(readable: Iterable[str], writable: Iterable[str]) -> bool:
    """Leave only *readable* and *writable* paths, and what lies below them, reachable.

    Paths that do not exist are passed over. Needs :func:`forbid_privileges` before it.
    """
    if not LINUX:
        return False
    version = _syscall(_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return False
    handled = (1 << 13) - 1
    handled |= _REFER if version >= 2 else 0
    handled |= _TRUNCATE if version >= 3 else 0
    handled |= _IOCTL_DEVICE if version >= 5 else 0
    attributes = struct.pack(
        "QQQ", handled, _NETWORK_RIGHTS if version >= 4 else 0, _SCOPES if version >= 6 else 0
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    buffer = ctypes.create_string_buffer(attributes)
    ruleset = _syscall(_LANDLOCK_CREATE, ctypes.cast(buffer, ctypes.c_void_p), size, 0)
    if ruleset < 0:
        return False
    try:
        read_rights = _EXECUTE | _READ_FILE | _READ_DIR
        for path in readable:
            _allow(ruleset, path, read_rights & handled)
        for path in writable:
            _allow(ruleset, path, handled & ~_EXECUTE)
        return _syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(target).st_mode):
            rights &= _FILE_RIGHTS
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, target))
        _syscall(_LANDLOCK_ADD_RULE, ruleset, 1, ctypes.cast(rule, ctypes.c_void_p), 0)
    finally:
        os.close(target)


# --- seccomp ----------------------------------------------------------------------------------

_SECCOMP_MODE_FILTER: Final = 2
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000
_KILL: Final = 0x80000000
_X32_CALLS: Final = 0x40000000
_LOAD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_GREATER_EQUAL: Final = 0x35
_JUMP_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

# The audit number of each machine, and where its numbers for the calls in _DENIED stand.
_MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_CLONE: Final = (56, 220)
_CLONE3: Final = 435
_DENIED: Final[dict[str, tuple[int, int]]] = {
    "socket": (41, 198),  # socketpair stays: event loops need it, and it reaches nobody
    "io_uring_setup": (425, 425),  # would open sockets behind this filter
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "pivot_root": (155, 41),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Shared memory of System V outlives its process and is on no limit.
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
}


def restrict_calls() -> bool:
    """Make sockets and the calls that reach into other processes or the kernel fail.

    Needs :func:`forbid_privileges` before it.
    """
    machine = _MACHINES.get(os.uname().machine) if LINUX else None
    if machine is None or struct.calcsize("P") != 8:
        return False
    program = _filter(*machine)
    code = ctypes.create_string_buffer(b"".join(program))
    header = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    )
    return _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header))


def _filter(audit: int, column: int) -> Sequence[bytes]:
    def step(code: int, operand: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("HBBI", code, yes, no, operand)

    refuse = step(_RETURN, _FAIL | errno.EPERM)
    program = [
        step(_LOAD, 4),
        step(_JUMP_EQUAL, audit, 1, 0),
        step(_RETURN, _KILL),
        step(_LOAD, 0),
        step(_JUMP_GREATER_EQUAL, _X32_CALLS, 0, 1),
        refuse,
        # "No such call" makes the C library fall back on clone, whose flags can be read here.
        step(_JUMP_EQUAL, _CLONE3, 0, 1),
        step(_RETURN, _FAIL | errno.ENOSYS),
    ]
    for numbers in _DENIED.values():
        program += [step(_JUMP_EQUAL, numbers[column], 0, 1), refuse]
    return [
        *program,
        step(_JUMP_EQUAL, _CLONE[column], 0, 3),
        step(_LOAD, 16),
        step(_JUMP_ANY_BIT, _CLONE_NEWUSER, 0, 1),
        refuse,
        step(_RETURN, _ALLOW),
    ]
