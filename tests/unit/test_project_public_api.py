"""The public names of each folder are frozen, sorted and complete."""

import importlib
from types import ModuleType

import pytest

from tests.support.tree import FOLDERS, ROOT


def _rank(name: str) -> tuple[int, str]:
    """Sort as ruff does: CONSTANTS, then Classes, then functions."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


def _public_names(module: ModuleType) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_public_names_are_the_frozen_ones(folder: str) -> None:
    """A name that comes or goes must show in a golden file: `make fix` writes it anew."""
    golden = ROOT / "tests" / "golden" / "public_api" / f"{folder}.txt"
    names: list[str] = importlib.import_module(f"threadbus.{folder}").__all__

    assert names == golden.read_text(encoding="utf-8").split()


@pytest.mark.parametrize("folder", FOLDERS)
def test_public_names_are_sorted_and_unique(folder: str) -> None:
    """A sorted list merges well and is quick to read."""
    names: list[str] = importlib.import_module(f"threadbus.{folder}").__all__

    assert names == sorted(set(names), key=_rank)


@pytest.mark.parametrize("folder", FOLDERS)
def test_public_names_are_the_whole_namespace(folder: str) -> None:
    """The root module offers what `__all__` says, and nothing else without an underscore."""
    module = importlib.import_module(f"threadbus.{folder}")
    names: list[str] = module.__all__

    assert set(names) == _public_names(module)
