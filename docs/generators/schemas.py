"""The JSON Schemas and the AsyncAPI document of the events."""

from __future__ import annotations

from threadbus.schemas.catalog import rendered

OWNED = ("docs/schemas",)


def files() -> dict[str, str]:
    """Return every generated file by its path in the repository."""
    return {f"docs/schemas/{path}": content.decode() for path, content in rendered().items()}
