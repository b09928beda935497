"""What must not be written anywhere in the repository."""

import re
from pathlib import Path

import pytest

from tests.support.tree import FOLDERS, ROOT, python_files, source_files

# In two halves, so that this file passes its own test.
REGISTRY_HOSTS = (
    "py" "pi.org",
    "python" "hosted.org",
    "npm" "js.org",
    "npm" "js.com",
    "crates" ".io",
    "proxy.golang" ".org",
    "maven" ".org",
    "debian" ".org",
    "docker" ".io/library",
)  # fmt: skip
MACHINE_PATH = re.compile(r"(?<![\w.~$}*-])/(?:work|root|Users/\w+|home/(?!someone/)\w+)/")
SLEEP = re.compile(r"\bsleep\((?!0\))")


def _text(path: Path) -> str:
    return (ROOT / path).read_bytes().decode("utf-8", errors="replace")


def _places(pattern: re.Pattern[str], path: Path) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()}"
        for number, line in enumerate(_text(path).splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_names_a_package_registry() -> None:
    """Which registry is used is a setting of the machine, not of the project."""
    hosts = re.compile("|".join(re.escape(host) for host in REGISTRY_HOSTS))
    places = [place for path in source_files() for place in _places(hosts, path)]

    assert places == []


def test_no_file_holds_a_path_of_one_machine() -> None:
    """An absolute path into somebody's home works for nobody else."""
    places = [place for path in source_files() for place in _places(MACHINE_PATH, path)]

    assert places == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("cd /" + "work/main && make", True),
        ('open("/' + 'home/ada/x.txt")', True),
        ("https://example.com/" + "work/plan", False),
        ("bus.<task>.<thread>.work.<sender>", False),
    ],
    ids=["folder", "home", "address", "subject"],
)
def test_machine_paths_are_told_from_other_text(line: str, found: bool) -> None:
    """Only an absolute path counts, not the end of an address or a subject."""
    assert bool(MACHINE_PATH.search(line)) is found


def test_no_test_sleeps() -> None:
    """A test waits for what it waits for, with a deadline, and never for a time to pass.

    Giving way to other tasks once, by sleep(0), is no sleep. The chaos suite lets time pass between
    one fault and the next.
    """
    tests = [
        path for path in python_files() if path.parts[0] == "tests" and path.parts[1] != "chaos"
    ]
    places = [place for path in tests for place in _places(SLEEP, path)]

    assert Path("tests/unit/test_project_sources.py") in tests
    assert places == []


def test_only_the_bus_imports_nats() -> None:
    """Everything else in the five folders speaks to NATS through threadbus.bus."""
    importing = re.compile(r"^\s*(?:import|from)\s+nats\b")
    folders = ("agents", "gateways", "replay", "schemas")
    modules = [path for path in python_files() if path.parts[0] in folders]
    places = [place for path in modules for place in _places(importing, path)]

    assert modules != []
    assert places == []


def test_a_folder_imports_only_from_the_root_of_another() -> None:
    """What is not in the `__all__` of a folder's root is private to that folder."""
    # The command `bus`, the model port and the screening of addresses are roots of their own
    # inside agents.
    deep = re.compile(
        r"^\s*(?:from|import)\s+threadbus\.(\w+)\.(?!(?:cli|model|tools\.net) import )\w+"
    )
    places = [
        f"{path}: {line.strip()}"
        for path in python_files()
        if path.parts[0] in FOLDERS
        for line in _text(path).splitlines()
        if (found := deep.match(line)) and found[1] != path.parts[0]
    ]

    assert places == []
