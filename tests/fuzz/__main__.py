"""Fuzz with coverage as the guide: ``python -m tests.fuzz [--minutes N] [--target NAMES]``.

It needs atheris, which is in the dependency group `fuzz`. Each target runs in a process of its own
and begins with its golden files; what breaks one is written to a file whose path is printed. Keep
it in ``tests/golden/fuzz/<target>/`` and mend what it shows.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.fuzz.targets import TARGETS, seeds

_MAX_BYTES: Final = 4096
_MAX_MINUTES: Final = 24 * 60
_SPARE_S: Final = 180
"""For a start on a machine that is busy; then it is ended."""

_SLOW_S: Final = 30
"""One input that takes so long is a finding."""

_PROGRAM: Final = """
import sys
import atheris
with atheris.instrument_imports(include=["threadbus"]):
    from tests.fuzz.targets import TARGETS
atheris.Setup(sys.argv, TARGETS[{name!r}])
atheris.Fuzz()
"""


def main() -> int:
    """Run what was asked for; the exit code is 1 where something broke."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--minutes", type=float, default=5, help="for all targets together")
    parser.add_argument("--target", default=",".join(TARGETS), metavar="NAMES", help="with commas")
    parser.add_argument("--found", type=Path, default=Path(), help="folder for what breaks one")
    given = parser.parse_args()
    names = [name for name in given.target.split(",") if name]
    for name in names:
        if name not in TARGETS:
            parser.error(f"no target is called {name!r}; there are {', '.join(TARGETS)}")
    if not 0 < given.minutes <= _MAX_MINUTES:
        parser.error(f"--minutes {given.minutes:g} is not above 0 and at most {_MAX_MINUTES:,}")
    if importlib.util.find_spec("atheris") is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        print(
            f"atheris is not installed for Python {version} on {sys.platform}: install the "
            "dependency group `fuzz`; where it has no wheel, fuzz with another Python. "
            "The same targets run with hypothesis in tests/unit/test_fuzz_targets.py."
        )
        return 2
    seconds = max(1, round(given.minutes * 60 / len(names)))
    broken = [name for name in names if not _fuzz(name, seconds, given.found)]
    print(f"broken: {', '.join(broken)}" if broken else "nothing broke")
    return 1 if broken else 0


def _fuzz(name: str, seconds: int, found: Path) -> bool:
    print(f"==> {name}: {TARGETS[name].__doc__} ({seconds} s)", flush=True)
    with TemporaryDirectory() as folder:
        corpus = Path(folder)
        for number, seed in enumerate(seeds(name)):
            (corpus / f"seed{number}").write_bytes(seed)
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                _PROGRAM.format(name=name),
                str(corpus),
                f"-max_total_time={seconds}",
                f"-max_len={_MAX_BYTES}",
                f"-artifact_prefix={found}/{name}-",
                f"-timeout={_SLOW_S}",
                "-print_final_stats=1",
            ],
            timeout=seconds + _SPARE_S,
            check=False,
        )
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
