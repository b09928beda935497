"""The log of a super-task as lines of JSON: what `busreplay --file` reads.

    {"seq":7,"stored_at":1772366405000000000,"subject":"bus.…","event":{…}}
    {"seq":8,"stored_at":1772366405000000000,"subject":"bus.…","rejected":"…","body":"…"}

``event`` is the event byte for byte as the log has it; what is no event keeps its reason and its
bytes in base64. It is the form of `busreplay --format jsonl`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.bus import Entry
from threadbus.schemas import Recorded, encode_event

# Outside of strings, where JSON forbids them, these mean the same as a space.
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


def export_line(entry: Entry) -> bytes:
    """Return the line for one entry of the log, with its line end."""
    if isinstance(entry, Recorded):
        body = (entry.body or encode_event(entry.event)).translate(_LINE_ENDS)
        return b'{"seq":%d,"stored_at":%d,"subject":"%s","event":%s}\n' % (
            entry.seq,
            entry.stored_at,
            entry.event.subject.encode(),
            body,
        )
    row = {
        "seq": entry.seq,
        "stored_at": entry.stored_at,
        "subject": entry.subject,
        "rejected": entry.reason,
        "body": entry.body,
    }
    return msgspec.json.encode(row) + b"\n"
