"""What people get when they install threadbus."""

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.tree import FOLDERS, ROOT, source_files


def _build_wheel(folder: Path) -> zipfile.ZipFile:
    """Build without an isolated environment: hatchling is installed, so no network is needed."""
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


def test_the_wheel_holds_the_five_packages_and_nothing_else(tmp_path: Path) -> None:
    """Every file below <folder>/threadbus is in the wheel, and no test, example or document."""
    expected = {
        Path(*path.parts[1:]).as_posix()
        for path in source_files()
        if path.parts[0] in FOLDERS and path.parts[1] == "threadbus"
    }

    with _build_wheel(tmp_path) as wheel:
        names = set(wheel.namelist())
        packed = {name for name in names if ".dist-info/" not in name}
        (commands,) = (wheel.read(n).decode() for n in names if n.endswith("entry_points.txt"))

    assert packed == expected
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert {line.split(" ")[0] for line in commands.splitlines() if "=" in line} == {
        "archive",
        "bus",
        "busreplay",
        "gateway",
        "trace",
    }
