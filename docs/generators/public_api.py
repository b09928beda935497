"""The public names of each folder, frozen: a change of the API shows as a change of these files."""

import importlib
from collections.abc import Mapping

FOLDERS = ("agents", "bus", "gateways", "replay", "schemas")
OWNED = ("tests/golden/public_api",)


def files() -> Mapping[str, str]:
    """Return one list of names for each folder."""
    return {f"tests/golden/public_api/{folder}.txt": _names(folder) for folder in FOLDERS}


def _names(folder: str) -> str:
    names: list[str] = importlib.import_module(f"threadbus.{folder}").__all__
    return "".join(f"{name}\n" for name in names)
