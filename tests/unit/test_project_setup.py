"""`make setup`: what somebody reads whose machine lacks something."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.tree import ROOT


def _setup(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run ops/setup.sh in a copy of what it reads, below a path with a space."""
    copy = folder / "my bus"
    (copy / "ops").mkdir(parents=True, exist_ok=True)
    for name in ("ops/setup.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, copy / name)
    return subprocess.run(
        ["sh", copy / "ops" / "setup.sh"],
        env={"PATH": os.environ.get("PATH", os.defpath), **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _fake_python(folder: Path, script: str) -> str:
    path = folder / "python9"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_an_old_python_is_refused_with_its_version(tmp_path: Path) -> None:
    """The message says what is there, what is needed, and how to name another one."""
    old = _fake_python(tmp_path, '[ "$1" = --version ] && echo Python 3.9.1 || exit 1')

    done = _setup(tmp_path, PYTHON=old)

    assert done.returncode == 1
    assert f"needs Python 3.11 or later; '{old}' is: Python 3.9.1" in done.stderr
    assert "make setup PYTHON=" in done.stderr


def test_a_missing_python_is_said_to_be_missing(tmp_path: Path) -> None:
    """A name that is not a program gets the same way out."""
    done = _setup(tmp_path, PYTHON="no-such-python")

    assert done.returncode == 1
    assert "'no-such-python' is: not found" in done.stderr


def test_a_python_that_cannot_make_a_virtual_environment_gets_a_way_out(tmp_path: Path) -> None:
    """Without ensurepip and pip, and outside Debian's own Python, the message says what to do."""
    bare = _fake_python(
        tmp_path,
        'case "$*" in *ensurepip*|*"import pip"*) exit 1;; *base_prefix*) echo /opt/python;;\n'
        f'*) exec "{sys.executable}" "$@";; esac',
    )

    done = _setup(tmp_path, PYTHON=bare)

    assert done.returncode == 1
    assert "has neither ensurepip nor pip" in done.stderr


def test_a_folder_that_is_not_a_virtual_environment_is_left_alone(tmp_path: Path) -> None:
    """Somebody's files in the way are never deleted."""
    precious = tmp_path / "my bus" / "env" / "thesis.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work", encoding="utf-8")

    done = _setup(tmp_path, PYTHON=sys.executable, VENV="env")

    assert done.returncode == 1
    assert "'env' is there and is not a virtual environment" in done.stderr
    assert precious.read_text(encoding="utf-8") == "years of work"
