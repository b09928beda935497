"""The JSON Schema of what ``busreplay --format json`` writes: docs/busreplay.schema.json."""

import json
from collections.abc import Mapping

import msgspec

from threadbus.replay import Timeline


def files() -> Mapping[str, str]:
    """Return the schema."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The story of one super-task",
        **msgspec.json.schema(Timeline),
    }
    return {"docs/busreplay.schema.json": json.dumps(schema, indent=2) + "\n"}
