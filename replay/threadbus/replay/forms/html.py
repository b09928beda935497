"""The page (HTML): one file to look around in, that loads nothing and sends nothing.

The data is JSON inside the page. A content security policy allows the page's own script and style,
by their hashes, and nothing else; the script shows texts as text only.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

import msgspec

from threadbus.replay.forms.options import FormOptions
from threadbus.replay.forms.paging import page_of
from threadbus.replay.story import Timeline
from threadbus.replay.text import first_line

_SCRIPTS: Final = ("model.js", "parts.js", "list.js", "lanes.js", "views.js", "tree.js", "app.js")
_JSON: Final = msgspec.json.Encoder()
# In JSON these stand inside strings only, where an escape means the same; "</script>" could end
# the block, and two kinds of line end could end a string of older scripts.
_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def write(timeline: Timeline, options: FormOptions) -> Iterator[str]:
    """Write *timeline* as a page.

    Args:
        timeline: the run, or a part of it.
        options: what else is to know.
    """
    style, script = _asset("page.css"), _script()
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    title = first_line(timeline.title, 100) or timeline.task or "a run"
    yield "<!doctype html>\n"
    yield '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="referrer" content="no-referrer">\n'
    yield '<meta name="color-scheme" content="light dark">\n'
    yield f"<title>{escape(title)}</title>\n"
    yield '<link rel="icon" href="data:,">\n'
    yield f"<style>{style}</style>\n</head>\n"
    yield _asset("body.html")
    yield '<script type="application/json" id="run">'
    yield embedded(page_of(timeline, options))
    yield f"</script>\n<script>{script}</script>\n</html>\n"


def embedded(data: object) -> str:
    """Return *data* as JSON that may stand inside a script block."""
    return _JSON.encode(data).decode().translate(_ESCAPES)


def _script() -> str:
    parts = "\n".join([_asset(name) for name in _SCRIPTS])
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


@cache
def _asset(name: str) -> str:
    return files("threadbus.replay.forms").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
