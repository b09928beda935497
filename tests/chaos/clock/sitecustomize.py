"""Makes the clock of a Python process jump: put this folder on its PYTHONPATH.

``CHAOS_CLOCK`` names a file with seconds, which are added to ``time.time`` and ``time.time_ns``.
The monotonic clock goes on, as it does when somebody sets the clock of a machine. What C code
reads by itself (``datetime.now``) is not changed.
"""

import os
import time
from pathlib import Path

_LOOK_NS = 20_000_000
_path = Path(os.environ["CHAOS_CLOCK"])
_real = time.time_ns
_state = {"offset": 0, "looked": 0}


def _now() -> int:
    real = _real()
    if real - _state["looked"] > _LOOK_NS:
        _state["looked"] = real
        _state["offset"] = int(float(_path.read_text(encoding="ascii")) * 1e9)
    return real + _state["offset"]


def _seconds() -> float:
    return _now() / 1e9


time.time_ns = _now
time.time = _seconds
