"""What goes out over the sockets of this process, write by write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest


def note_writes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Note each write of several lines from now on, as one."""
    written: list[bytes] = []
    write = asyncio.StreamWriter.writelines

    def noted(writer: asyncio.StreamWriter, lines: Iterable[bytes]) -> None:
        whole = b"".join(lines)
        written.append(whole)
        write(writer, [whole])

    monkeypatch.setattr(asyncio.StreamWriter, "writelines", noted)
    return written
