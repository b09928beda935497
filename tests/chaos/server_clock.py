"""A clock of the server that jumps, while the clock of the machine stays as it is.

nats-server is a static program: no library can be put before it. But it asks for the time through
a function that the kernel lends to every process (the vDSO), by way of a pointer of the Go runtime.
That pointer is turned, in the running process, to a function of some bytes in the unused end of
the process's own copy of the vDSO. It asks the kernel, and adds seconds to the wall clock. The
monotonic clock goes on, as it does when somebody sets the clock of a machine. So timers run as
before, and everything that is reckoned from time stamps jumps: the window in which ids of
messages are remembered, ages and lives of messages, leases, and the stamps themselves.
"""

from __future__ import annotations

import platform
import struct
import sys
from pathlib import Path
from typing import Final

from tests.chaos.needs import MissingError

_POINTER: Final = b"runtime.vdsoClockgettimeSym"

_CODE: Final = bytes.fromhex(
    "b8e4000000"  # mov eax, 228 (clock_gettime)
    "0f05"  # syscall
    "85ff"  # test edi, edi (CLOCK_REALTIME is 0)
    "750a"  # jnz to the end
    "488b0d06000000"  # mov rcx, [the seconds]
    "48010e"  # add [rsi], rcx
    "c3"  # ret
    "9090"
)
_SIZE: Final = len(_CODE) + 8
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_SYMBOLS, _FIXED = 2, 2


class ServerClock:
    """The wall clock of one running process of a Go program.

    Args:
        pid: the process; it must be a child of this one, or of the same user.

    Raises:
        MissingError: its clock cannot be had on this machine.
    """

    def __init__(self, pid: int) -> None:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise MissingError("way to change the clock of a server (Linux on x86-64)")
        self._memory = Path(f"/proc/{pid}/mem")
        self._seconds = 0
        pointer = _address(Path(f"/proc/{pid}/exe"))
        try:
            start, end = _vdso(Path(f"/proc/{pid}/maps"))
            self._place = self._put(_room(self._read(start, end - start), start))
            # One aligned word: a thread sees the old pointer or the new one.
            self._write(pointer, struct.pack("<Q", self._place))
        except OSError as error:
            text = f"right to write into the memory of process {pid} ({error.strerror})"
            raise MissingError(text) from error

    @property
    def seconds(self) -> int:
        """How far ahead of the machine's clock it is; negative is behind."""
        return self._seconds

    @seconds.setter
    def seconds(self, seconds: int) -> None:
        self._write(self._place + len(_CODE), struct.pack("<q", seconds))
        self._seconds = seconds

    def _put(self, place: int) -> int:
        self._write(place, _CODE + bytes(8))
        return place

    def _read(self, address: int, size: int) -> bytes:
        with self._memory.open("rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

    def _write(self, address: int, data: bytes) -> None:
        with self._memory.open("r+b", buffering=0) as memory:
            memory.seek(address)
            memory.write(data)


def _vdso(maps: Path) -> tuple[int, int]:
    for line in maps.read_text(encoding="ascii", errors="replace").splitlines():
        if line.endswith("[vdso]"):
            start, _, end = line.split(" ", 1)[0].partition("-")
            return int(start, 16), int(end, 16)
    raise MissingError("vDSO in the memory of a server")


def _room(image: bytes, start: int) -> int:
    """Return an address at the end of the vDSO that nothing is at."""
    place = (len(image) - _SIZE) & ~7
    if any(image[place - 8 :]):
        raise MissingError(f"{_SIZE} unused bytes at the end of its vDSO")
    return start + place


def _address(program: Path) -> int:
    """Return where the Go runtime keeps the pointer, by the program's table of symbols."""
    with program.open("rb") as file:
        head = file.read(64)
        kind, sections, size, count = (
            *struct.unpack_from("<H", head, 16),
            *struct.unpack_from("<Q", head, 40),
            *struct.unpack_from("<HH", head, 58),
        )
        file.seek(sections)
        table = [
            struct.unpack_from("<IIQQQQII", part)
            for part in (file.read(size) for _ in range(count))
        ]
        if kind == _FIXED:
            for section in table:
                if section[1] != _SYMBOLS:
                    continue
                names = table[section[6]]
                file.seek(names[4])
                at = file.read(names[5]).find(b"\0" + _POINTER + b"\0") + 1
                file.seek(section[4])
                for name, _, _, _, value, _ in _SYMBOL.iter_unpack(file.read(section[5])):
                    if at and name == at:
                        return int(value)
    raise MissingError(f"nats-server with the symbol {_POINTER.decode()}, at a fixed address")
