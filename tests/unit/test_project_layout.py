"""The layout that docs/adr/0001-import-names-and-folders.md decides."""

from pathlib import Path

import pytest

from tests.support.tree import FOLDERS, ROOT, python_files, source_files

MAX_LINES = 400


def test_no_folder_makes_threadbus_a_regular_package() -> None:
    """A threadbus/__init__.py anywhere would hide the other four folders from import."""
    present = [path for path in source_files() if path.parts[-2:] == ("threadbus", "__init__.py")]

    assert present == []


def test_tests_are_not_packages() -> None:
    """A package named agents below tests/ would shadow the one of another distribution."""
    present = [p for p in source_files() if p.parts[0] == "tests" and p.name == "__init__.py"]

    assert present == []


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", ["README.md", "threadbus/{}/__init__.py", "threadbus/{}/py.typed"])
def test_each_folder_is_complete(folder: str, name: str) -> None:
    """Each folder has a README, a root module and the marker that says it is typed."""
    path = Path(folder) / name.format(folder)

    assert path in source_files(), f"{path} is missing"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_holds_one_package_only(folder: str) -> None:
    """All code of a folder lies in threadbus/<folder>, so the wheel holds no other name."""
    package = Path(folder, "threadbus", folder)
    outside = [p for p in python_files() if p.parts[0] == folder and package not in p.parents]

    assert outside == []


def test_no_module_is_over_the_line_limit() -> None:
    """A module is one idea: none has more than 400 lines."""
    lengths = {
        path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in python_files()
    }
    too_long = {str(path): lines for path, lines in lengths.items() if lines > MAX_LINES}

    assert len(lengths) > len(FOLDERS)
    assert too_long == {}


def test_test_files_have_unique_names() -> None:
    """Two test files of one name are told apart badly in reports."""
    names = [path.name for path in python_files() if path.name.startswith("test_")]

    assert sorted(names) == sorted(set(names))
