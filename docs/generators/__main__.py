"""Write the generated files, or check that they are up to date.

    python -m docs.generators            write what differs
    python -m docs.generators --check    write nothing; exit code 1 when something differs

Each module beside this one is a generator: its ``files()`` maps the path of a file, from the root
of the repository, to the text that belongs there. It reads what it needs and writes nothing. A
folder that holds nothing but generated files is named in its ``OWNED`` tuple: what else lies
there is left over, and removed.
"""

import argparse
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs.generators", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, report what differs")
    check: bool = parser.parse_args(arguments).check
    wanted, owned = _generate()
    different = differences(ROOT, wanted, owned)
    for path in different:
        done = "written" if path in wanted else "removed"
        print(f"{'out of date' if check else done}: {path}")
    if check and different:
        print("run: make fix", file=sys.stderr)
        return 1
    if not check:
        write(ROOT, wanted, different)
    return 0


def _generate() -> tuple[dict[str, str], list[str]]:
    wanted: dict[str, str] = {}
    owned: list[str] = []
    for source in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        module = importlib.import_module(f"docs.generators.{source.stem}")
        for path, text in module.files().items():
            if path in wanted:
                raise ValueError(f"two generators write {path}; one is {source.name}")
            wanted[path] = text
        owned.extend(getattr(module, "OWNED", ()))
    return wanted, owned


def differences(root: Path, wanted: Mapping[str, str], owned: list[str]) -> list[str]:
    """Return the paths below *root* that must be written or removed, sorted."""
    different = {path for path, text in wanted.items() if _read(root / path) != text}
    for folder in owned:
        present = {
            p.relative_to(root).as_posix() for p in (root / folder).rglob("*") if p.is_file()
        }
        different |= present - wanted.keys()
    return sorted(different)


def write(root: Path, wanted: Mapping[str, str], paths: list[str]) -> None:
    """Write each of *paths* below *root*, and remove those that are not *wanted*."""
    for path in paths:
        target = root / path
        if path not in wanted:
            target.unlink()
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(wanted[path], encoding="utf-8")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
