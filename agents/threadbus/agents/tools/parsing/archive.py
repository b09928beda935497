"""Check an Office file, which is a ZIP archive, before a library unpacks it."""

from __future__ import annotations

import io
import zipfile

from threadbus.agents.tools.parsing.budget import refuse, refuse_size
from threadbus.agents.tools.parsing.model import DocumentLimits, Problem


def check_archive(data: bytes, limits: DocumentLimits) -> None:
    """End the parser when unpacking would take more than *limits* allow.

    The sizes are what the archive claims, but ``zipfile`` never unpacks more of an entry than
    that; entries that overlap (a bomb without nesting) are each counted in full.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    if len(entries) > limits.archive_entries:
        refuse_size(
            "files inside", len(entries), limits.archive_entries, "DocumentLimits.archive_entries"
        )
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > limits.unpacked_bytes:
        refuse_size(
            "bytes unpacked", unpacked, limits.unpacked_bytes, "DocumentLimits.unpacked_bytes"
        )
    if any(entry.flag_bits & 1 for entry in entries):
        refuse(Problem.ENCRYPTED)
