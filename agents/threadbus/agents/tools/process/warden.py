"""The process between an agent and a command that nobody trusts.

Started by :mod:`.bounded` in a session of its own. It reads its settings as one line of JSON from
standard input, isolates itself, starts the command below a small init process, and watches: time,
files, processes, and standard input, which ends when the agent dies. Whatever ends the run, it
kills every process of it, however detached, and only then reports and ends.

    agent ── warden ── init (process 1 of its namespace) ── the command ── its children

Standard output and error belong to the command; the warden itself writes one line to the
descriptor in its settings. Standard library only, since it runs in a bare interpreter.
"""

# Without pathlib: this starts once for every command.
# ruff: noqa: PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from threadbus.agents.tools.process import folders, isolation

_TICK_S: Final = 0.05
"""How often files and processes are counted."""
_KILL_DEADLINE_S: Final = 3.0
_SETTINGS: Final = (
    *("alternatives", "ca-certificates", "fonts", "group", "host.conf", "hosts", "ld.so.cache"),
    *("ld.so.conf", "ld.so.conf.d", "ld.so.preload", "locale.alias", "localtime", "magic"),
    *("mime.types", "apache/mime.types", "apache2/mime.types", "httpd/mime.types"),
    *("httpd/conf/mime.types", "nsswitch.conf", "os-release", "lsb-release", "debian_version"),
    *("passwd", "pki/tls/certs", "pki/ca-trust", "protocols", "resolv.conf", "services"),
    *("ssl/certs", "ssl/openssl.cnf", "timezone"),
)
"""What programs read below ``/etc``. Not all of it: keys and settings of services lie there too."""
_SYSTEM_PATHS: Final = (
    *("/usr", "/bin", "/lib", "/lib64", "/nix/store", "/sys/devices/system"),
    *(f"/etc/{name}" for name in _SETTINGS),
    *("/dev/zero", "/dev/random", "/dev/urandom"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat"),
)
"""What programs read before they come to their own files."""
_WRITABLE_DEVICES: Final = ("/dev/null",)


class Settings(NamedTuple):
    """What the agent tells the warden."""

    argv: list[str]
    environment: dict[str, str]
    folder: str
    readable: list[str]
    namespaces: bool
    wall_s: float
    cpu_s: int
    memory_bytes: int
    file_bytes: int
    folder_bytes: int
    folder_entries: int
    processes: int
    open_files: int
    report_fd: int = -1


class Report(NamedTuple):
    """What the warden tells the agent when all is over."""

    ended: str
    """``exit``, ``stopped``, ``wall_time``, ``processes``, ``folder`` or ``lost``."""
    status: int = 0
    """The wait status of the command when it ended by itself."""
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0
    network_cut: bool = False
    processes_hidden: bool = False
    files_hidden: bool = False
    unprivileged: bool = False
    error: str = ""
    """Why the command could not be started."""


def main() -> None:
    """Run one command as the settings on standard input say."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    settings = _read_settings()
    os.chdir(settings.folder)
    os.set_inheritable(settings.report_fd, False)
    isolation.adopt_orphans()
    isolation.prefer_as_memory_victim()
    above = os.path.dirname(settings.folder)
    needed = [settings.argv[0], os.__file__, above, *settings.readable]
    dropped = isolation.drop_root(needed, _tree(settings.folder))
    hidden = settings.namespaces and isolation.enter_namespaces()
    status_read, status_write = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(status_read)
        _never_return(lambda: _be_init(settings, status_write, hidden), status_write)
    os.close(status_write)
    ended, told, orphaned = _watch(settings, init, status_read)
    _kill_all(init)
    if orphaned:
        folders.remove(settings.folder)
        return
    report = Report(ended, **told)
    report = report._replace(
        network_cut=report.network_cut or hidden,
        processes_hidden=hidden,
        unprivileged=dropped or hidden,
    )
    os.write(settings.report_fd, json.dumps(report._asdict()).encode())


def _read_settings() -> Settings:
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(0, 65536)
        if not chunk:
            raise SystemExit(0)  # the agent died before it asked for anything
        line += chunk
    values: dict[str, Any] = json.loads(line)
    return Settings(**values)


def _tree(folder: str) -> Iterator[str]:
    yield folder
    for here, subfolders, files in os.walk(folder):
        yield from (os.path.join(here, name) for name in (*subfolders, *files))


# --- the processes below the warden -----------------------------------------------------------


def _never_return(body: Callable[[], None], status_fd: int) -> None:
    """Run *body* in a forked child, which must not go on with the code of its parent."""
    try:
        body()
    except BaseException as error:
        _tell(status_fd, error=repr(error))
    finally:
        os._exit(1)


def _be_init(settings: Settings, status_fd: int, hidden: bool) -> None:
    """Start the command, reap what it leaves, and report how it ended."""
    isolation.die_with_parent()
    os.setsid()
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_DFL)
    command = os.fork()
    if command == 0:
        _never_return(lambda: _be_command(settings, status_fd, hidden), status_fd)
    while True:
        ended, status, used = os.wait4(-1, 0)
        if ended == command:
            break
    _tell(
        status_fd,
        status=status,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_memory_bytes=used.ru_maxrss * (1024 if isolation.LINUX else 1),
    )
    os._exit(0)


def _be_command(settings: Settings, status_fd: int, hidden: bool) -> None:
    """Give up everything that the command must not have, and become the command."""
    for restored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(restored, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    isolation.set_limits(_limits(settings, hidden))
    isolation.forbid_privileges()
    readable = [*settings.readable, *_mapped_folders(), *_SYSTEM_PATHS]
    _tell(
        status_fd,
        files_hidden=isolation.restrict_files(readable, [settings.folder, *_WRITABLE_DEVICES]),
        network_cut=isolation.restrict_calls(),
    )
    os.execve(settings.argv[0], settings.argv, settings.environment)  # noqa: S606 -- its purpose


def _limits(settings: Settings, hidden: bool) -> Iterator[tuple[int, int, int]]:
    # The second above the soft limit is for code that ignores the signal.
    yield resource.RLIMIT_CPU, settings.cpu_s, settings.cpu_s + 1
    yield resource.RLIMIT_AS, settings.memory_bytes, settings.memory_bytes
    yield resource.RLIMIT_FSIZE, settings.file_bytes, settings.file_bytes
    yield resource.RLIMIT_NOFILE, settings.open_files, settings.open_files
    yield resource.RLIMIT_CORE, 0, 0
    if hidden:
        # Counted in the own user namespace only, where warden and init are two more. Without
        # one it would count the agent's own processes, and the watch has to do.
        yield resource.RLIMIT_NPROC, settings.processes + 2, settings.processes + 2


def _mapped_folders() -> set[str]:
    """Return where the shared libraries of this interpreter lie."""
    try:
        with open("/proc/self/maps") as maps:
            paths = [line.split(maxsplit=5)[-1].strip() for line in maps]
    except OSError:
        return set()
    return {os.path.dirname(path) for path in paths if path.startswith("/")}


def _tell(status_fd: int, **facts: object) -> None:
    os.write(status_fd, json.dumps(facts).encode() + b"\n")


# --- watching and killing ---------------------------------------------------------------------


def _watch(settings: Settings, init: int, status_fd: int) -> tuple[str, dict[str, Any], bool]:
    """Wait for the first thing that ends the run.

    Returns:
        What ended it, the facts that were told meanwhile, and whether the agent died.
    """
    deadline = time.monotonic() + settings.wall_s
    told: dict[str, Any] = {}
    received = b""
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([status_fd, 0], [], [], min(_TICK_S, left))
        if 0 in ready:
            return "stopped", told, not os.read(0, 1)
        if status_fd in ready:
            chunk = os.read(status_fd, 65536)
            *lines, received = (received + chunk).split(b"\n")
            for line in lines:
                told.update(json.loads(line))
            if "status" in told or not chunk:
                return "exit" if "status" in told else "lost", told, False
        entries, size = folders.usage(settings.folder, settings.folder_entries)
        if entries > settings.folder_entries or size > settings.folder_bytes:
            return "folder", told, False
        if sum(_tasks(pid) for pid in _descendants(init)) > settings.processes:
            return "processes", told, False
    return "wall_time", told, False


def _descendants(root: int) -> list[int]:
    """Return the ids of all processes below *root*; empty where the system does not tell."""
    found: list[int] = []
    pending = [root]
    while pending:
        here = pending.pop()
        try:
            threads = os.listdir(f"/proc/{here}/task")
            for thread in threads:
                with open(f"/proc/{here}/task/{thread}/children") as children:
                    pending += [int(child) for child in children.read().split()]
        except OSError:  # ended meanwhile
            continue
        finally:
            found.append(here)
    return found[1:]


def _tasks(process: int) -> int:
    try:
        return len(os.listdir(f"/proc/{process}/task"))
    except OSError:
        return 0


def _kill_all(init: int) -> None:
    """Kill init and every descendant of this process, and reap them.

    With a namespace the kernel does it all when init dies. Without one, orphans become children
    of this process; they are stopped before they are killed, so that they cannot fork meanwhile.
    """
    os.kill(init, signal.SIGKILL)
    _signal_group(init)
    deadline = time.monotonic() + _KILL_DEADLINE_S
    while _reap() and time.monotonic() < deadline:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in _descendants(os.getpid()):
                _signal(process, number)
        time.sleep(0.002)


def _signal_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def _reap() -> bool:
    """Reap every child that ended; tell whether any is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
