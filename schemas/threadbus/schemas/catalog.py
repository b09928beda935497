"""Write the JSON Schemas and the AsyncAPI document, or check that they are up to date.

    python -m threadbus.schemas.catalog --write docs/schemas
    python -m threadbus.schemas.catalog --check docs/schemas

``event.json`` describes a whole event, ``data/<type>.json`` what one type says,
``agent-record.json``, ``presence.json`` and ``limit-record.json`` what the registry keeps, and
``asyncapi.json`` which event goes where.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from threadbus.schemas.asyncapi import asyncapi_document
from threadbus.schemas.cards import AgentRecord, Presence
from threadbus.schemas.events import DATA_TYPES
from threadbus.schemas.json_schemas import Json, event_schema, struct_schema
from threadbus.schemas.limit_records import LimitRecord

DEFAULT_FOLDER: Final = "docs/schemas"


def documents() -> dict[str, Json]:
    """Return every generated document by its path inside the folder."""
    return {
        "asyncapi.json": asyncapi_document(),
        "event.json": event_schema(),
        "agent-record.json": struct_schema(AgentRecord, "agent-record"),
        "presence.json": struct_schema(Presence, "presence"),
        "limit-record.json": struct_schema(LimitRecord, "limit-record"),
        **{f"data/{name}.json": struct_schema(kind, name) for name, kind in DATA_TYPES.items()},
    }


def rendered() -> dict[str, bytes]:
    """Return every document as the bytes of its file, by its path inside the folder."""
    return {
        path: (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
        for path, document in documents().items()
    }


def drift(folder: Path) -> list[str]:
    """Return what differs between *folder* and what would be written, one line a file."""
    expected = rendered()
    lines = [
        f"{folder / path}: {'differs' if (folder / path).exists() else 'is missing'}"
        for path, content in expected.items()
        if not (folder / path).is_file() or (folder / path).read_bytes() != content
    ]
    there = {*folder.glob("*.json"), *folder.glob("data/*.json")}
    stale = there - {folder / path for path in expected}
    return lines + [f"{path}: is not generated any more, delete it" for path in sorted(stale)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the documents, or check that they are up to date.

    Returns:
        The exit code: 0 when all is well, 1 when a file differs or cannot be written.
    """
    parser = argparse.ArgumentParser(
        prog="python -m threadbus.schemas.catalog",
        description="JSON Schemas and an AsyncAPI document, generated from the event structs.",
    )
    action = parser.add_mutually_exclusive_group(required=True)
    for flag, text in (("--write", "write the documents"), ("--check", "name those that differ")):
        action.add_argument(
            flag, nargs="?", const=DEFAULT_FOLDER, metavar="FOLDER", type=Path, help=text
        )
    chosen = parser.parse_args(arguments)
    return _check(chosen.check) if chosen.check else _write(chosen.write)


def _check(folder: Path) -> int:
    lines = drift(folder)
    for line in lines:
        sys.stderr.write(f"{line}\n")
    if lines:
        sys.stderr.write(f"run: python -m threadbus.schemas.catalog --write {folder}\n")
    return 1 if lines else 0


def _write(folder: Path) -> int:
    try:
        for path, content in rendered().items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    except OSError as error:
        sys.stderr.write(f"cannot write {error.filename}: {error.strerror}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
