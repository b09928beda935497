"""Code that means harm: each run ends within its bounds and leaves nothing behind.

Every case runs as the system allows, and once more without namespaces, as in a container that
forbids them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from tests.support.eventually import eventually
from tests.support.leftovers import processes_in
from threadbus.agents.tools import Ended, SandboxLimits, SandboxResult, run_python
from threadbus.agents.tools.process import isolation

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the isolation is Linux's")

# Time enough for a busy machine: only what never ends by itself gets the short one.
LIMITS = SandboxLimits(
    wall_time=timedelta(seconds=30),
    cpu_time=timedelta(seconds=1),
    memory_bytes=512 * 2**20,
    file_bytes=2**20,
    folder_bytes=4 * 2**20,
    files=64,
    processes=16,
)
BRIEF = msgspec.structs.replace(LIMITS, wall_time=timedelta(seconds=0.5))


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep working folders below the test's own folder, and check that nothing stays."""
    folder = tmp_path / "runs"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert processes_in(folder) == []
    assert list(folder.iterdir()) == []


@pytest.fixture(params=[True, False], ids=["namespaces", "plain"])
def namespaces(request: pytest.FixtureRequest) -> bool:
    """Run with the kernel's namespaces, and without them."""
    return bool(request.param)


def run(code: str, namespaces: bool, limits: SandboxLimits = LIMITS) -> SandboxResult:
    return asyncio.run(run_python(textwrap.dedent(code), limits=limits, namespaces=namespaces))


def started(folder: Path) -> bool:
    """Tell whether code in a run below *folder* has written its first file."""
    return any(folder.glob("*/started"))


FORKS = """
    import os
    while True:
        with __import__("contextlib").suppress(OSError):
            os.fork()
"""
ALLOCATES = "x = bytearray(10 * 2**30)"
PRINTS = """
    while True:
        print("x" * 100_000)
"""
WRITES_ONE_FILE = """
    with open("big", "wb", buffering=0) as file:
        for _ in range(10_000):
            file.write(bytes(2**20))
"""
WRITES_MANY_FILES = """
    for i in range(10**9):
        open(str(i), "wb").write(bytes(2**16))
"""
NESTS_FOLDERS = """
    import os
    while True:
        os.mkdir("d")
        os.chdir("d")
"""
HIDES_FOLDERS = """
    import os, signal
    os.mkdir("hidden")
    os.chdir("hidden")
    for i in range(100):
        open(str(i), "w")
    os.chmod(".", 0)
    signal.pause()
"""
IGNORES_SIGNALS = """
    import signal, threading
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    threading.Event().wait()
"""
COMPUTES_ON = """
    import signal
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        pass
"""
STOPS_ITSELF = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"


@pytest.mark.parametrize(
    ("code", "limits", "ends"),
    [
        (FORKS, BRIEF, {Ended.PROCESSES, Ended.WALL_TIME}),
        (ALLOCATES, LIMITS, {Ended.MEMORY}),
        (PRINTS, LIMITS, {Ended.OUTPUT}),
        (WRITES_ONE_FILE, LIMITS, {Ended.FILE_SIZE}),
        (WRITES_MANY_FILES, LIMITS, {Ended.FOLDER}),
        (NESTS_FOLDERS, LIMITS, {Ended.FOLDER}),
        (HIDES_FOLDERS, LIMITS, {Ended.FOLDER}),
        (IGNORES_SIGNALS, BRIEF, {Ended.WALL_TIME}),
        (STOPS_ITSELF, BRIEF, {Ended.WALL_TIME}),
    ],
    ids=[
        *("forks", "allocates", "prints", "one-file", "many-files", "nests", "hides"),
        *("ignores-signals", "stops-itself"),
    ],
)
def test_hostile_code_ends_at_its_limit(
    code: str, limits: SandboxLimits, ends: set[Ended], namespaces: bool
) -> None:
    """Whatever code does, it is ended by the limit that is meant for it."""
    assert run(code, namespaces, limits).ended in ends


def test_code_that_ignores_the_warning_is_ended_by_its_computing_time() -> None:
    """The signal that comes first may be ignored, the one after it not."""
    assert run(COMPUTES_ON, True).ended is Ended.CPU_TIME


def test_grandchildren_do_not_outlive_the_run(namespaces: bool) -> None:
    """A daemon that left its session, closed its files and ignores signals is killed as well."""
    code = """
        import os, signal
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
                open("daemon-runs", "w")
                os.closerange(0, 3)
                signal.pause()
            os._exit(0)
        os.wait()
        while not os.path.exists("daemon-runs"):
            pass
        print("left")
    """
    result = run(code, namespaces)
    assert (result.ok, result.stdout) == (True, "left\n")


def test_killing_everything_in_reach_does_not_free_the_code(namespaces: bool) -> None:
    """Code that kills its parents and all it can see ends with its run."""
    code = """
        import contextlib, os, signal
        for target in (os.getppid(), -1, 1):
            with contextlib.suppress(OSError):
                os.kill(target, signal.SIGKILL)
        signal.pause()
    """
    run(code, namespaces, BRIEF)


def test_the_network_is_cut(namespaces: bool) -> None:
    """No socket leads anywhere, not to this machine either, and the result says so."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.suppress(BlockingIOError):
        server.setblocking(False)
        port = server.getsockname()[1]
        result = run(f"import socket; socket.create_connection(('127.0.0.1', {port}))", namespaces)
        assert result.exit_status == 1
        assert "PermissionError" in result.stderr
        assert result.isolation.network
        server.accept()
        pytest.fail("the code reached a server")


def test_a_datagram_leads_nowhere(namespaces: bool) -> None:
    """Datagrams, by which names are looked up, are cut too."""
    code = """
        import socket
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))
    """
    assert run(code, namespaces).exit_status == 1


def test_files_of_the_agent_cannot_be_read_or_written(tmp_path: Path, namespaces: bool) -> None:
    """Outside of the working folder only the installed software is within reach."""
    secret = tmp_path / "secret.env"
    secret.write_text("KEY=sk-very-secret")
    code = f"""
        import os
        for action in (
            lambda: print(open({str(secret)!r}).read()),
            lambda: open({str(secret)!r}, "w"),
            lambda: open({str(tmp_path / "new")!r}, "w"),
            lambda: os.unlink({str(secret)!r}),
            lambda: os.symlink({str(secret)!r}, "link") or print(open("link").read()),
            lambda: os.mkdir({str(tmp_path / "folder")!r}),
        ):
            try:
                action()
            except PermissionError:
                print("refused")
    """
    result = run(code, namespaces)
    assert result.isolation.files
    assert result.stdout == "refused\n" * 6, result.stderr
    assert secret.read_text() == "KEY=sk-very-secret"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "secret.env"]


def test_settings_and_keys_of_services_cannot_be_read(namespaces: bool) -> None:
    """Below /etc only what any program needs is within reach, also where the agent is root."""
    code = """
        import mimetypes, os, pwd, ssl
        for look in (
            lambda: os.listdir("/etc"),
            lambda: open("/etc/shadow").read(),
            lambda: open("/etc/fstab").read(),
            lambda: os.listdir("/etc/ssl/private"),
        ):
            try:
                print(look())
            except (PermissionError, FileNotFoundError):
                print("refused")
        mimetypes.init()
        ssl.create_default_context()
        print(pwd.getpwuid(0).pw_name)
    """
    result = run(code, namespaces)
    assert result.stdout == "refused\n" * 4 + "root\n", result.stderr


def test_no_process_gives_its_environment_away(
    namespaces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of the agent, and of the processes in between, stays theirs."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    code = f"""
        import os
        agent = {os.getpid()}
        for pid in ["self", os.getpid(), os.getppid(), agent, *range(agent, agent + 1000)]:
            try:
                print(open(f"/proc/{{pid}}/environ").read())
            except OSError:
                pass
    """
    assert "secret" not in run(code, namespaces).stdout


def test_privileges_cannot_be_regained(namespaces: bool) -> None:
    """New namespaces, other users and the kernel's interfaces are out of reach."""
    code = """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        print([libc.unshare(flag) for flag in (0x10000000, 0x20000, 0x40000000)])
        print(libc.mount(b"none", b".", b"tmpfs", 0, None))
        print(libc.ptrace(16, os.getppid(), 0, 0))
        try:
            os.setuid(0), os.chroot(".")
            print("root")
        except OSError:
            print(-1)
    """
    assert run(code, namespaces).stdout == "[-1, -1, -1]\n-1\n-1\n-1\n"


def test_what_the_system_cannot_keep_is_told() -> None:
    """A run without namespaces says which protection is missing."""
    with_all, without = run("", True), run("", False)
    if not with_all.isolation.processes:
        pytest.skip("no namespaces on this system")
    assert with_all.isolation.missing() == ()
    assert any("Other processes" in sentence for sentence in without.isolation.missing())


def test_a_cancelled_run_is_gone_when_the_cancellation_returns(
    temporary: Path, namespaces: bool
) -> None:
    """Cancellation kills all processes and removes all files before it is passed on."""
    code = "open('started', 'w'); import os, signal; os.fork(); os.setsid(); signal.pause()"

    async def cancel() -> None:
        limits = SandboxLimits(wall_time=timedelta(seconds=60))
        task = asyncio.create_task(run_python(code, limits=limits, namespaces=namespaces))
        await eventually(lambda: started(temporary), "the code started")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        left = processes_in(temporary), await asyncio.to_thread(lambda: [*temporary.iterdir()])
        assert left == ([], [])

    asyncio.run(cancel())


def test_a_run_is_cancelled_before_its_code_started() -> None:
    """A cancellation that comes at once leaves nothing either."""

    async def cancel() -> None:
        for turns in range(5):
            task = asyncio.create_task(run_python("import signal; signal.pause()"))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancel())


def test_a_killed_agent_takes_its_runs_with_it(temporary: Path, namespaces: bool) -> None:
    """When the agent is killed outright, its runs end and their folders are removed."""
    code = "open('started', 'w'); import signal; signal.pause()"
    agent = f"""
import asyncio
from threadbus.agents.tools import run_python
asyncio.run(run_python({code!r}, namespaces={namespaces}))
"""
    environment = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen([sys.executable, "-c", agent], env=environment)
    try:
        asyncio.run(eventually(lambda: started(temporary), "the code started"))
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    asyncio.run(eventually(lambda: not processes_in(temporary), "the run ended"))
    asyncio.run(eventually(lambda: not list(temporary.iterdir()), "its folder was removed"))


def test_a_killed_warden_is_an_error_and_leaves_no_process(temporary: Path) -> None:
    """Killing the process in between from outside takes the code with it."""
    if not run("", True).isolation.processes:
        pytest.skip("no namespaces on this system")
    code = "open('started', 'w'); import signal; signal.pause()"

    async def kill() -> None:
        limits = SandboxLimits(wall_time=timedelta(seconds=60))
        task = asyncio.create_task(run_python(code, limits=limits))
        await eventually(lambda: started(temporary), "the code started")
        os.kill(min(processes_in(temporary)), signal.SIGKILL)
        with pytest.raises(Exception, match="warden was killed"):
            await task

    asyncio.run(kill())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give itself up")
def test_root_is_given_up_when_the_software_can_be_read_without(temporary: Path) -> None:
    """Started as root, a process becomes nobody, unless what it needs is root's alone."""
    private = temporary / "private"
    private.mkdir(mode=0o700)
    given = temporary / "given"
    given.mkdir()
    script = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("isolation", sys.argv[3])
isolation = importlib.util.module_from_spec(spec)
spec.loader.exec_module(isolation)
print(isolation.drop_root([sys.argv[1]], [sys.argv[2]]), os.getuid(), os.getgid(), os.getgroups())
"""

    def drop(needed: str) -> str:
        command = [sys.executable, "-c", script, needed, str(given), isolation.__file__]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert drop(str(private)) == "False 0 0 []"
    assert given.stat().st_uid == 0
    assert drop("/") == f"True {isolation.NOBODY} {isolation.NOBODY} []"
    assert given.stat().st_uid == isolation.NOBODY
    private.rmdir()
    given.rmdir()
