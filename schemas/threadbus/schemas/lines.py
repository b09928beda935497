"""The log of a super-task as lines of JSON: what every export writes and `busreplay --file` reads.

    {"seq":7,"stored_at":1772366405000000000,"subject":"bus.…","event":{…}}
    {"seq":8,"stored_at":1772366405000000000,"subject":"bus.…","rejected":"…","body":"…"}

``event`` is the event byte for byte as the log has it; what is no event keeps its reason and its
bytes in base64.
"""

from __future__ import annotations

from typing import Final

import msgspec

from threadbus.schemas.codec import encode_event
from threadbus.schemas.envelope import Recorded, Rejected

# Outside of strings, where JSON forbids them, these mean the same as a space.
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")
_ENCODER: Final = msgspec.json.Encoder()


def export_line(entry: Recorded | Rejected) -> bytes:
    """Return the line for one entry of the log, with its line end."""
    if isinstance(entry, Rejected):
        row = {
            "seq": entry.seq,
            "stored_at": entry.stored_at,
            "subject": entry.subject,
            "rejected": entry.reason,
            "body": entry.body,
        }
        return _ENCODER.encode(row) + b"\n"
    body = entry.body or encode_event(entry.event)
    if b"\n" in body or b"\r" in body:
        body = body.translate(_LINE_ENDS)
    subject = entry.event.subject.encode()
    return b'{"seq":%d,"stored_at":%d,"subject":"%s","event":%s}\n' % (
        entry.seq,
        entry.stored_at,
        subject,
        body,
    )
