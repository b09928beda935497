"""The systemd units, looked at by systemd itself where it is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from threadbus.agents.cli.app import app as _app

_UNITS = Path(__file__).parents[2] / "ops" / "systemd"
_NAMES = sorted(path.name for path in _UNITS.glob("threadbus-*"))
_SERVICES = [name for name in _NAMES if name.endswith(".service")]
_BIN = Path(sys.executable).parent
_EXPOSURE = 20
"""Of 100: what systemd-analyze calls safe ends at 20."""

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze"
)


def _installed(folder: Path) -> dict[str, Path]:
    """Copy the units, with threadbus where it is on this machine."""
    made: dict[str, Path] = {}
    for name in _NAMES:
        text = (_UNITS / name).read_text(encoding="utf-8").replace("/opt/threadbus/bin", str(_BIN))
        path = folder / name.replace("@.", "@web.")
        path.write_text(text, encoding="utf-8")
        made[name] = path
    return made


def _analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@needs_systemd
def test_systemd_takes_every_unit(tmp_path: Path) -> None:
    """No unknown setting, no program that is not there, no dependency that is wrong."""
    units = _installed(tmp_path)
    ran = _analyze("verify", "--man=no", *units.values())
    about_ours = [line for line in ran.stderr.splitlines() if "threadbus" in line]
    assert (ran.returncode, about_ours) == (0, []), ran.stderr


@needs_systemd
@pytest.mark.parametrize("name", _SERVICES)
def test_no_service_is_exposed(name: str, tmp_path: Path) -> None:
    """`systemd-analyze security` calls each safe."""
    unit = _installed(tmp_path)[name]
    ran = _analyze("security", "--offline=true", f"--threshold={_EXPOSURE}", unit)
    assert ran.returncode == 0, ran.stdout[-600:] + ran.stderr


def test_each_service_speaks_as_whom_its_key_is_for() -> None:
    """The server sends answers to no other name; `bus run` takes that of its agent."""
    found: dict[str, str] = {}
    for name in _SERVICES:
        text = (_UNITS / name).read_text(encoding="utf-8")
        key = re.search(r"^LoadCredential=nkey:/etc/threadbus/keys/(.+)\.nk$", text, re.MULTILINE)
        who = re.search(r"^Environment=BUS_NKEY=%d/nkey(?: BUS_AS=(\S+))?$", text, re.MULTILINE)
        assert (key is None) == (who is None), name
        if key is not None and who is not None and "bus run" not in text:
            found[key[1]] = who[1]
    assert found == {name: name for name in ("exporter", "mcp", "a2a", "operator")}


def test_every_command_is_one_of_ours() -> None:
    """What the units start exists: the first words are commands of `bus`."""
    known = {command.name for command in _app.registered_commands}
    groups = [group.typer_instance for group in _app.registered_groups]
    known |= {group.info.name for group in groups if group is not None}
    known |= {"gateway", "trace"}
    found: list[str] = []
    for name in _SERVICES:
        text = (_UNITS / name).read_text(encoding="utf-8")
        found += re.findall(r"/opt/threadbus/bin/bus (\S+)", text)
    assert len(found) == len(_SERVICES)
    assert set(found) <= known
